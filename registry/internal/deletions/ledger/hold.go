// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	maxNames = 10
	// maxAsked different objects of a Hold are counted. More stays at least so many.
	maxAsked = 10_000
	maxID    = 63
)

// Held is a hold: it refuses the deletes of a module and resource. Once a Store or a caller has it, it is replaced, never changed.
type Held struct {
	// ID is never used again in the hub.
	ID string
	// Saved has the Cluster "" for the hub, up to ten Names, sorted, and a Note in words of this program. Fleet: the limit of all
	// clusters was exceeded there. Used grows in steps, ahead of the deletes, so that a restart does not refill the allowance.
	holds.Saved
	// Replica is the process whose limit was exceeded, for a Hold of the hub or of the fleet with shared targets.
	Replica string
	// Asked is when the module last asked for a refused delete.
	Asked time.Time
}

// Target is empty for the hub.
func (h *Held) Target() state.ClusterName { return state.ClusterName(h.Cluster) }

// Kind returns the group and the resource of the objects.
func (h *Held) Kind() schema.GroupResource {
	return schema.GroupResource{Group: h.Group, Resource: h.Resource}
}

// newID tells an operator what the Hold is about. Thirty bits are random.
func newID(module, resource string) string {
	suffix := "-" + strings.ToLower(rand.Text()[:6])
	name := module + "-" + resource
	return name[:min(len(name), maxID-len(suffix))] + suffix
}

// IsOfTarget reports whether the Hold is of one remote, and moves with it; others are of the hub or the fleet.
func (h *Held) IsOfTarget() bool { return h.Cluster != "" && !h.Fleet }

// Successor returns a Hold of another process in this one's place, with its own id and without an allowance.
func (h *Held) Successor(replica string) Held {
	next := *h
	next.ID, next.Replica = newID(h.Module, h.Resource), replica
	next.Granted, next.Spent, next.Used = 0, 0, 0
	return next
}

// Where returns the targets of the Hold as a phrase.
func (h *Held) Where() string {
	switch {
	case h.Fleet:
		return "in all clusters together"
	case h.Cluster != "":
		return "in cluster " + h.Cluster
	}
	return "in the hub"
}

type hold struct {
	Held
	asked map[string]int                  // the number of objects of each refused request, by name
	from  map[state.ClusterName]time.Time // when each app last asked, by its target
}

func (h *hold) ask(r Request, now time.Time) {
	name, objects := r.Name, r.Objects
	h.Asked, h.from[r.From] = now, now
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

// spend uses the allowance, if it suffices, and reports whether Used has grown.
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

// String leaves out the names, which are texts of a remote.
func (h *Held) String() string {
	text := fmt.Sprintf("%s and asks for at least %d more", h.done(), h.More)
	if h.Note != "" {
		text += ". " + h.Note
	}
	return text
}

func (h *Held) done() string {
	return fmt.Sprintf("module %s has deleted %d %s %s%s within ten minutes", h.Module, h.Deleted, h.Kind(), h.Where(), holds.For(h.Cause))
}

// Asking returns the targets whose apps have asked for held deletes.
func (l *Ledger) Asking() []state.ClusterName {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[state.ClusterName]time.Time{}
	for _, h := range l.holds {
		maps.Copy(all, h.from)
	}
	return slices.Collect(maps.Keys(all))
}

// Await keeps the Holds in force for another Window for which the app of a target has asked within one: it cannot ask now, since it
// does not run.
func (l *Ledger) Await(target state.ClusterName, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if at, hasAsked := h.from[target]; hasAsked && now.Sub(at) < Window {
			h.Asked, h.from[target] = now, now
		}
	}
}
