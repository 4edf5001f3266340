// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ownership says whose a downstream object is.
type Ownership uint8

const (
	// Foreign has no marks of the pair, or marks that contradict each other. It is never written.
	Foreign Ownership = iota
	// Ours is the copy of the upstream object with this UID, or of an absent one.
	Ours
	// Stale is the copy of an earlier object of the same name.
	Stale
	// Copied has the marks of another object. It is never written.
	Copied
)

func (o Ownership) String() string {
	switch o {
	case Ours:
		return "Ours"
	case Stale:
		return "Stale"
	case Copied:
		return "Copied"
	case Foreign:
	}
	return "Foreign"
}

func (t *translator[T]) Owner(down T, uid types.UID) Ownership {
	up, is := t.original(down)
	switch {
	case is != Ours:
		return is
	case !slices.Contains(t.ToDownstream(up), client.ObjectKeyFromObject(down)):
		return Foreign
	case uid != "" && down.GetAnnotations()[t.keys.ObjectUID] != string(uid):
		return Stale
	}
	return Ours
}

// original returns Ours for a copy of the tenant at any address.
func (t *translator[T]) original(down T) (up types.NamespacedName, is Ownership) {
	kind := t.kindOf()
	if kind.Empty() { // It would take each copy for an object of another owner.
		panic("syncer: a translator is used before a pair has it: pass it to Of or Register first, or set TranslatorOptions.Kind")
	}
	if down.GetLabels()[t.keys.ManagedBy] != t.managedBy { // Most objects, and each event of a remote with many rules asks.
		return up, Foreign
	}
	notes := down.GetAnnotations()
	up = types.NamespacedName{Namespace: notes[t.keys.ObjectNamespace], Name: notes[t.keys.ObjectName]}
	switch {
	case notes[t.keys.HostName] != down.GetName(), notes[t.keys.HostNamespace] != down.GetNamespace():
		return up, Copied
	case !isKind(notes[t.keys.ObjectKind], kind.GroupKind()), up.Name == "":
		return up, Foreign
	}
	return up, Ours
}

// FormerOf returns the original of a copy of the same tenant and kind at an address that the translator does not give: the copies
// have moved since. It returns false for any other object, and for a translator of another package.
func FormerOf[T client.Object](t Translator[T], down T) (types.NamespacedName, bool) {
	known, ok := t.(*translator[T])
	if !ok {
		return types.NamespacedName{}, false
	}
	up, is := known.original(down)
	return up, is == Ours && !slices.Contains(known.ToDownstream(up), client.ObjectKeyFromObject(down))
}

// isKind compares the group and kind only: a pair may change the version that it uses.
func isKind(mark string, kind schema.GroupKind) bool {
	version, name, ok := strings.Cut(mark, ", Kind=")
	group, _, isVersion := strings.Cut(version, "/")
	return ok && isVersion && group == kind.Group && name == kind.Kind
}

func (t *translator[T]) ToUpstream(down T) (types.NamespacedName, bool) {
	if t.Owner(down, "") != Ours {
		return types.NamespacedName{}, false
	}
	notes := down.GetAnnotations()
	return types.NamespacedName{Namespace: notes[t.keys.ObjectNamespace], Name: notes[t.keys.ObjectName]}, true
}
