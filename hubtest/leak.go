// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"bytes"
	"fmt"
	"runtime/pprof"
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
		if left = stacks(fmt.Sprintf("%q:%q", hubLabel, id)); len(left) == 0 {
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
