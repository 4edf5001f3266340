// SPDX-License-Identifier: Apache-2.0

package logging

import (
	stdlog "log"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/fx/fxevent"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Route sends the lines of klog and controller-runtime to log, and those of Go's log package, mostly net/http's about
// peers, at debug level. Call it once, before anything is logged.
func Route(log logr.Logger) {
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	ctrl.SetLogger(log)
	stdlog.SetFlags(0)
	stdlog.SetOutput(lines{log.WithName("go").V(1)})
}

type lines struct{ log logr.Logger }

func (l lines) Write(line []byte) (int, error) {
	l.log.Info(strings.TrimSpace(string(line)))
	return len(line), nil
}

// FX returns a logger for fx's events, for debugging only.
func FX(log logr.Logger) fxevent.Logger {
	debug := &fxevent.SlogLogger{Logger: slog.New(logr.ToSlogHandler(log.WithName("fx").V(1)))}
	debug.UseErrorLevel(slog.LevelInfo)
	return debug
}
