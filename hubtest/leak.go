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

// hubLabel is the pprof label of a hub's goroutines, which inherit it.
const hubLabel = "hubtest"

// No leaks of a module.
const (
	// filteredWatch stays when controller-runtime's newGVKFixupWatcher is stopped while it delivers an event: one for
	// each hub that ends.
	filteredWatch = "k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"
	// signalLoop is one for the process. fx registers for signals when a module ends the hub.
	signalLoop = "os/signal.loop"
)

// findLeaks pauses for twice as long after each look, which stops the process. Goroutines end late on a busy machine.
func findLeaks(id string, patience time.Duration) []string {
	left := stacks(labelOf(id))
	for pause := 20 * time.Millisecond; len(left) > 0 && pause < patience; pause *= 2 {
		<-time.After(pause)
		left = stacks(labelOf(id))
	}
	return left
}

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

// A Baseline is how many goroutines a hub and its apps have at one time.
type Baseline struct {
	hub  *Hub
	then goroutines
}

type goroutines map[string]int

// Baseline counts the goroutines of the hub and its apps when that is stable for half a second, to find leaks while
// the hub runs. Some goroutines start when first needed, so run the operation once before:
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

// Wait waits until there are no more goroutines than at the Baseline. Otherwise the test ends with their stacks.
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
