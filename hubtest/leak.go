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

// hubLabel is the pprof label of the goroutines of a hub and its apps: each goroutine inherits the labels of the
// goroutine that started it.
const hubLabel = "hubtest"

// Goroutines that are not leaks of a module.
const (
	// filteredWatch is left behind by controller-runtime's newGVKFixupWatcher when it is stopped while it delivers an
	// event without a receiver: one goroutine for each hub that ends.
	filteredWatch = "k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"
	// signalLoop is one goroutine for the whole process, from the first registration for signals. fx registers when a
	// module ends the hub.
	signalLoop = "os/signal.loop"
)

const (
	// leakTimeout is how long goroutines may take to end after their hub.
	leakTimeout = 5 * time.Second
	leakPeriod  = 20 * time.Millisecond
)

// findLeaks returns the stacks of goroutines that a stopped hub and its apps have left.
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

// A Baseline is the number of goroutines of a hub and its apps at one time. Hub.Baseline takes it.
type Baseline struct {
	hub  *Hub
	then goroutines
}

// goroutines is the number of goroutines with each stack.
type goroutines map[string]int

// Baseline counts the goroutines of the hub and its apps when their number has not changed for half a second. It is for
// tests that find goroutine leaks while the hub runs. A hub starts some goroutines when they are first needed, so run
// the tested operation once before Baseline, and then again:
//
//	before := hub.Baseline()
//	... register a remote, and deregister it ...
//	before.Wait()
func (h *Hub) Baseline() *Baseline {
	h.tb.Helper()
	b := &Baseline{hub: h}
	const calm = 25 // equal counts in a row
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

// Wait waits until the hub and its apps have no more goroutines than at the Baseline. If more stay, the test ends with
// their stacks.
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
		n, err := strconv.Atoi(number[strings.LastIndex(number, "\n")+1:]) // The first number follows the title of the profile.
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
