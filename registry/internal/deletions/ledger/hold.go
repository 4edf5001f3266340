// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// maxNames is how many objects a Hold names.
	maxNames = 10
	// maxAsked is how many different objects of a Hold are counted. More stays at least so many beyond it.
	maxAsked = 10_000
	// maxID is the length of an id.
	maxID = 63
)

// Hold refuses the deletes of a module and resource. It is replaced, never changed, once a Store or a caller has it.
type Hold struct {
	// ID identifies the Hold in the hub. It is never used again.
	ID       string
	Module   string
	Resource schema.GroupResource
	// Target is the target cluster; empty for the hub. Fleet says that the Hold is in force in all targets, because the
	// limit of the fleet was exceeded in Target.
	Target state.ClusterName
	Fleet  bool
	// Cause is the cause whose deletes are held; empty for deletes without a cause, and holds.AllCauses for those with any.
	Cause string
	// Replica is the process whose limit was exceeded, for a Hold of the hub or of the fleet in a hub whose processes share the
	// targets. It is empty for others.
	Replica string
	// Since is when the Hold began, and Asked when the module last asked for a delete that it refuses.
	Since, Asked time.Time
	// Done is how many objects were deleted within a Window before the Hold, More how many refused objects are known.
	Done, More int
	// Names are up to ten of the refused objects, sorted. Note is what an operator has to know in addition, in words of this program.
	Names []string
	Note  string
	// Granted is how many deletes an operator has allowed, Spent how many of them were sent, and Used how many of them a
	// Store must count as sent. Used grows in steps, ahead of the deletes, so that a restart does not refill the allowance.
	Granted, Spent, Used int
}

// newID returns an id for a Hold that tells an operator what it is about. Thirty bits of it are random.
func newID(module, resource string) string {
	suffix := "-" + strings.ToLower(rand.Text()[:6])
	name := module + "-" + resource
	return name[:min(len(name), maxID-len(suffix))] + suffix
}

// IsOfTarget reports whether the Hold is in force in one remote, so that it moves with the remote. Others are of the hub or of
// the fleet.
func (h *Hold) IsOfTarget() bool { return h.Target != "" && !h.Fleet }

// Successor returns a Hold of another process that takes the place of this one. It has an id of its own and allows nothing.
func (h *Hold) Successor(replica string) Hold {
	next := *h
	next.ID, next.Replica = newID(h.Module, h.Resource.Resource), replica
	next.Granted, next.Spent, next.Used = 0, 0, 0
	return next
}

// Where returns the targets of the Hold as a phrase.
func (h *Hold) Where() string {
	switch {
	case h.Fleet:
		return "in all clusters together"
	case h.Target != "":
		return "in cluster " + string(h.Target)
	}
	return "in the hub"
}

// hold is a Hold in force.
type hold struct {
	Hold
	asked map[string]int // the number of objects of each refused request, by name
}

// ask notes that the module has asked for the delete of an object.
func (h *hold) ask(name string, objects int, now time.Time) {
	h.Asked = now
	known, ok := h.asked[name]
	if ok && known >= objects || !ok && len(h.asked) >= maxAsked {
		return
	}
	h.asked[name] = objects
	h.More += objects - known
	if !ok && len(h.Names) < maxNames {
		h.Names = append(slices.Clone(h.Names), name)
		slices.Sort(h.Names)
	}
}

// usedStep is by how much Used grows.
const usedStep = 20

// spend uses the allowance for the delete of an object, if it is sufficient. It reports whether Used has grown.
func (h *hold) spend(name string, objects int) (allowed, grown bool) {
	if h.Spent+objects > h.Granted {
		return false, false
	}
	h.Spent += objects
	if known, ok := h.asked[name]; ok {
		delete(h.asked, name)
		h.More -= known
		h.Names = slices.DeleteFunc(slices.Clone(h.Names), func(n string) bool { return n == name })
	}
	if h.Spent > h.Used {
		h.Used, grown = min(h.Granted, h.Spent+usedStep), true
	}
	return true, grown
}

// String describes the Hold in a sentence without its names, which are texts of a remote.
func (h *Hold) String() string {
	text := fmt.Sprintf("%s and asks for at least %d more", h.done(), h.More)
	if h.Note != "" {
		text += ". " + h.Note
	}
	return text
}

// done describes the deletes before the Hold.
func (h *Hold) done() string {
	return fmt.Sprintf("module %s has deleted %d %s %s%s within ten minutes", h.Module, h.Done, h.Resource, h.Where(), holds.For(h.Cause))
}
