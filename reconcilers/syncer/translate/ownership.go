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
	// Foreign is an object without the marks of the pair, or with marks that contradict each other. A pair never writes it.
	Foreign Ownership = iota
	// Ours is the copy of the upstream object of that name and UID, or of one that is absent.
	Ours
	// Stale is the copy of an earlier upstream object of the same name: the UIDs differ.
	Stale
	// Copied is an object with the marks of another object: somebody has copied it with its labels and annotations. A pair
	// never writes it.
	Copied
)

// String returns the name of the constant.
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

// Owner decides whose a downstream object is. uid is that of the upstream object, or empty if that object is absent.
func (t *translator[T]) Owner(down T, uid types.UID) Ownership {
	kind := t.kindOf()
	if kind.Empty() { // It would take each copy for an object of somebody else.
		panic("syncer: a translator is used before a pair has it: pass it to Of or Register first, or set TranslatorOptions.Kind")
	}
	notes, labels := down.GetAnnotations(), down.GetLabels()
	switch {
	case labels[t.keys.ManagedBy] != t.managedBy:
		return Foreign
	case notes[t.keys.HostName] != down.GetName(), notes[t.keys.HostNamespace] != down.GetNamespace():
		return Copied
	case !isKind(notes[t.keys.ObjectKind], kind.GroupKind()):
		return Foreign
	}
	up := types.NamespacedName{Namespace: notes[t.keys.ObjectNamespace], Name: notes[t.keys.ObjectName]}
	if up.Name == "" || !slices.Contains(t.ToDownstream(up), client.ObjectKeyFromObject(down)) {
		return Foreign
	}
	if uid != "" && notes[t.keys.ObjectUID] != string(uid) {
		return Stale
	}
	return Ours
}

// isKind reports whether the mark with a kind is of this kind, in any version: a pair may change the version that it uses.
func isKind(mark string, kind schema.GroupKind) bool {
	version, name, ok := strings.Cut(mark, ", Kind=")
	group, _, isVersion := strings.Cut(version, "/")
	return ok && isVersion && group == kind.Group && name == kind.Kind
}

// ToUpstream returns the name of the original of a downstream object, and false if the object is not a copy of the pair.
func (t *translator[T]) ToUpstream(down T) (types.NamespacedName, bool) {
	if t.Owner(down, "") != Ours {
		return types.NamespacedName{}, false
	}
	notes := down.GetAnnotations()
	return types.NamespacedName{Namespace: notes[t.keys.ObjectNamespace], Name: notes[t.keys.ObjectName]}, true
}
