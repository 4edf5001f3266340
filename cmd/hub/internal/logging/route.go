// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"log/slog"

	"github.com/go-logr/logr"
	"go.uber.org/fx/fxevent"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Route leads what klog and controller-runtime log in this process to log. Call it once, before
// anything is logged.
func Route(log logr.Logger) {
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	ctrl.SetLogger(log)
}

// FX returns a logger for fx's events, which are for debugging alone.
func FX(log logr.Logger) fxevent.Logger {
	debug := &fxevent.SlogLogger{Logger: slog.New(logr.ToSlogHandler(log.WithName("fx").V(1)))}
	debug.UseErrorLevel(slog.LevelInfo)
	return debug
}
