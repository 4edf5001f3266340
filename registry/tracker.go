// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tracker knows how far the modules of one app have come.
type tracker struct {
	changed func() // called without the lock after every change

	mu      sync.Mutex // protects the fields
	modules map[string]*progress
	started bool          // the manager runs
	synced  chan struct{} // closed once it runs and every controller has its initial objects
	blocks  map[string]string
}

type progress struct {
	pending int // controllers that wait for their initial objects
	failed  *moduleError
}

func newTracker(modules []Module, changed func()) *tracker {
	t := &tracker{
		changed: changed,
		modules: map[string]*progress{},
		synced:  make(chan struct{}),
		blocks:  map[string]string{},
	}
	for _, m := range modules {
		t.modules[m.name] = &progress{}
	}
	return t
}

// update changes the facts under the lock, and tells if that completed the app.
func (t *tracker) update(change func()) {
	t.mu.Lock()
	change()
	complete := t.started
	for _, p := range t.modules {
		complete = complete && p.pending == 0
	}
	if complete {
		select {
		case <-t.synced:
		default:
			close(t.synced)
		}
	}
	t.mu.Unlock()
	t.changed()
}

func (t *tracker) controllerAdded(module string) { t.update(func() { t.modules[module].pending++ }) }

func (t *tracker) controllerSynced(module string) { t.update(func() { t.modules[module].pending-- }) }

func (t *tracker) managerStarted() { t.update(func() { t.started = true }) }

func (t *tracker) moduleFailed(err *moduleError) {
	t.update(func() {
		if p := t.modules[err.module]; p != nil && p.failed == nil {
			p.failed = err
		}
	})
}

// blocked notes why the objects of a type cannot be had, or, with an empty message, that they
// can.
func (t *tracker) blocked(what, message string) {
	t.mu.Lock()
	same := t.blocks[what] == message
	t.mu.Unlock()
	if same {
		return
	}
	t.update(func() {
		if message == "" {
			delete(t.blocks, what)
			return
		}
		t.blocks[what] = message
	})
}

// waiting says what a starting app waits for; it is empty unless something is known to be in the
// way.
func (t *tracker) waiting() Facet {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name, p := range t.modules {
		if p.pending > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 || len(t.blocks) == 0 {
		return Facet{}
	}
	slices.Sort(names)
	return Facet{
		Status:  metav1.ConditionFalse,
		Reason:  t.blockReason(),
		Message: clean(fmt.Sprintf("module %s: %s", strings.Join(names, ", "), t.blockText())),
	}
}

func (t *tracker) blockText() string {
	what := slices.Sorted(maps.Keys(t.blocks))
	return t.blocks[what[0]]
}

// blockReason is Forbidden if anything is forbidden: that is what an operator has to mend.
func (t *tracker) blockReason() string {
	for _, message := range t.blocks {
		if strings.Contains(message, "forbidden") {
			return ReasonForbidden
		}
	}
	return ReasonWaiting
}

// list returns the state of every module, sorted by name.
func (t *tracker) list() []ModuleInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	var infos []ModuleInfo
	for _, name := range slices.Sorted(maps.Keys(t.modules)) {
		infos = append(infos, t.info(name, t.modules[name]))
	}
	return infos
}

func (t *tracker) info(name string, p *progress) ModuleInfo {
	switch {
	case p.failed != nil:
		return ModuleInfo{name, ModuleFailed, p.failed.reason, clean(p.failed.err.Error())}
	case p.pending > 0 && len(t.blocks) > 0:
		return ModuleInfo{name, ModuleWaiting, t.blockReason(), clean(t.blockText())}
	case p.pending > 0 || !t.started:
		return ModuleInfo{name, ModuleStarting, ReasonStarting, ""}
	}
	return ModuleInfo{name, ModuleRunning, ReasonRunning, ""}
}

// maxMessage is how many bytes of text a Facet carries.
const maxMessage = 512

// clean makes text fit for a condition: one line, printable, bounded.
func clean(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, text)
	if len(text) <= maxMessage {
		return text
	}
	cut := strings.ToValidUTF8(text[:maxMessage-len("…")], "")
	return cut + "…"
}
