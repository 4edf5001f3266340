// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/fx/fxevent"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	crzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Format is the form of a line of the log.
type Format string

const (
	// Auto is Console on a terminal and JSON elsewhere.
	Auto Format = "auto"
	// JSON is an object per line, with the keys level, ts, logger and msg.
	JSON Format = "json"
	// Console is for reading.
	Console Format = "console"
)

// Options say how a logger writes. The zero value is a good one.
type Options struct {
	Format Format
	// Level is debug, info or error. Default: info.
	Level string
}

// New returns a logger that writes to w; to a Buffer without waiting.
func New(w io.Writer, o Options) logr.Logger {
	level, _ := zapcore.ParseLevel(o.Level) // Of an unknown one, that is info.
	encoder := newJSON()
	if o.Format == Console || o.Format != JSON && Terminal(w) {
		encoder = newConsole(w)
	}
	var out zapcore.WriteSyncer
	if buffer, ok := w.(*Buffer); ok {
		buffer.announce(noticeOf(encoder))
		out = buffer
	} else {
		out = zapcore.Lock(zapcore.AddSync(w))
	}
	core := zapcore.NewCore(&crzap.KubeAwareEncoder{Encoder: encoder}, out, level)
	return zapr.NewLogger(zap.New(core, zap.ErrorOutput(out)))
}

// The line appears at every level.
func noticeOf(encoder zapcore.Encoder) func(lines uint64) []byte {
	return func(lines uint64) []byte {
		entry := zapcore.Entry{
			Level: zapcore.ErrorLevel, Time: time.Now(), LoggerName: "logging",
			Message: "Dropped lines of the log because its reader was too slow",
		}
		line, err := encoder.Clone().EncodeEntry(entry, []zapcore.Field{zap.Uint64("lines", lines)})
		if err != nil {
			return nil
		}
		defer line.Free()
		return slices.Clone(line.Bytes())
	}
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	if buffer, ok := w.(*Buffer); ok {
		w = buffer.to
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func newJSON() zapcore.Encoder {
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.EncodeDuration = zapcore.StringDurationEncoder
	return zapcore.NewJSONEncoder(config)
}

func newConsole(w io.Writer) zapcore.Encoder {
	config := zap.NewDevelopmentEncoderConfig()
	config.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	if Terminal(w) && os.Getenv("NO_COLOR") == "" {
		config.EncodeLevel = zapcore.CapitalColorLevelEncoder
	}
	return zapcore.NewConsoleEncoder(config)
}

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
