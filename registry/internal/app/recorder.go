// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// lateRecorder drops events until the manager runs. The manager's recorder starts goroutines with
// the first event, and only a manager that was started stops them: an app that fails before that
// would leave them behind at every try.
type lateRecorder struct {
	events.EventRecorder
	running atomic.Bool
}

func (l *lateRecorder) open() { l.running.Store(true) }

// Eventf records an event, if the manager runs.
func (l *lateRecorder) Eventf( //nolint:revive // argument-limit: client-go's interface.
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	if l.running.Load() {
		l.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}
