// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hubLabel is the pprof label of the goroutines of a hub and its apps: each goroutine has the labels of
// the one that started it.
const hubLabel = "hubtest"

// Goroutines that are no leaks of a module's.
const (
	// filteredWatch is left behind by controller-runtime's newGVKFixupWatcher when it is stopped while an
	// event is on its way to nobody: one per hub that ends.
	filteredWatch = "k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"
	// signalLoop is one for the whole process, from the first time that somebody wants to know of
	// signals. fx does when a module ends the hub.
	signalLoop = "os/signal.loop"
)

const (
	// leakTimeout is how long goroutines may take to end after their hub.
	leakTimeout = 5 * time.Second
	leakPeriod  = 20 * time.Millisecond
)

// findLeaks returns the stacks of goroutines that a hub which has ended has left, and its apps.
func findLeaks(id string) []string {
	ticker := time.NewTicker(leakPeriod)
	defer ticker.Stop()
	var left []string
	for deadline := time.Now().Add(leakTimeout); time.Now().Before(deadline); <-ticker.C {
		if left = stacks(labelOf(id)); len(left) == 0 {
			return nil
		}
	}
	return left
}

// stacks returns the stacks of all goroutines that have a label.
func stacks(label string) []string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return []string{err.Error()}
	}
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		contains := func(text string) bool { return strings.Contains(stack, text) }
		if contains(label) && !contains(filteredWatch) && !contains(signalLoop) {
			found = append(found, stack)
		}
	}
	return found
}

// A Baseline is how many goroutines a hub has at a time, with those of its apps. Hub.Baseline takes it.
type Baseline struct {
	hub  *Hub
	then goroutines
}

// goroutines are how many goroutines have each stack.
type goroutines map[string]int

// Baseline takes the number of the goroutines that the hub and its apps have when it is the same for half a second,
// for a test of what is to leave none behind while the hub runs. A hub starts some of them when they are first needed,
// so let it do once before what is then done again:
//
//	before := hub.Baseline()
//	... register a remote, and deregister it ...
//	before.Wait()
func (h *Hub) Baseline() *Baseline {
	h.tb.Helper()
	b := &Baseline{hub: h}
	const calm = 25 // looks
	same := 0
	h.wait("a calm hub", func(context.Context) error {
		now := h.goroutines()
		if same++; b.then == nil || now.sum() != b.then.sum() {
			same = 0
		}
		b.then = now
		if same < calm {
			return errors.New("the number of its goroutines changes")
		}
		return nil
	})
	return b
}

// Wait waits until the hub and its apps have no more goroutines than there were. If they keep more, the test ends with
// the stacks of those.
func (b *Baseline) Wait() {
	b.hub.tb.Helper()
	b.hub.wait(fmt.Sprintf("the %d goroutines of before", b.then.sum()), func(context.Context) error {
		now := b.hub.goroutines()
		if now.sum() <= b.then.sum() {
			return nil
		}
		text := fmt.Sprintf("there are %d; these are more than before:", now.sum())
		for _, stack := range slices.Sorted(maps.Keys(now)) {
			if more := now[stack] - b.then[stack]; more > 0 {
				text += fmt.Sprintf("\n\n%d more @ %s", more, stack)
			}
		}
		return errors.New(text)
	})
}

func (h *Hub) goroutines() goroutines {
	all := goroutines{}
	for _, stack := range stacks(labelOf(h.site.process.id)) {
		number, frames, _ := strings.Cut(stack, " @ ")
		n, err := strconv.Atoi(number[strings.LastIndex(number, "\n")+1:]) // The first one is below the title of all.
		if err == nil {
			all[frames] += n
		}
	}
	return all
}

func (g goroutines) sum() int {
	sum := 0
	for _, n := range g {
		sum += n
	}
	return sum
}

func labelOf(id string) string { return fmt.Sprintf("%q:%q", hubLabel, id) }
