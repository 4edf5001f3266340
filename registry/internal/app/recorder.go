// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// lateRecorder drops events until the manager runs: the first event starts goroutines, which only a started manager
// stops, so each failed start would leave some behind.
type lateRecorder struct {
	events.EventRecorder
	running atomic.Bool
}

func (l *lateRecorder) open() { l.running.Store(true) }

func (l *lateRecorder) Eventf( //nolint:revive // argument-limit: client-go's interface.
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	if l.running.Load() {
		l.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}
