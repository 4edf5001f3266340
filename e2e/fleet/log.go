// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"io"

	"go.uber.org/zap/zapcore"
	kindlogger "sigs.k8s.io/kind/pkg/log"
)

// newLog is for clusters that start at the same time: one line at a time; nowhere if w is nil.
func newLog(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return zapcore.Lock(zapcore.AddSync(w))
}

// kindLog writes the messages of kind to the fleet's log.
type kindLog struct{ w io.Writer }

var (
	_ kindlogger.Logger     = kindLog{}
	_ kindlogger.InfoLogger = kindLog{}
)

func (l kindLog) Warn(message string)               { l.Info(message) }
func (l kindLog) Warnf(format string, args ...any)  { l.Infof(format, args...) }
func (l kindLog) Error(message string)              { l.Info(message) }
func (l kindLog) Errorf(format string, args ...any) { l.Infof(format, args...) }
func (l kindLog) Info(message string)               { _, _ = fmt.Fprintln(l.w, message) }
func (l kindLog) Infof(format string, args ...any)  { _, _ = fmt.Fprintf(l.w, format+"\n", args...) }
func (l kindLog) Enabled() bool                     { return true }

// V drops kind's debugging.
func (l kindLog) V(level kindlogger.Level) kindlogger.InfoLogger {
	if level > 0 {
		return kindlogger.NoopInfoLogger{}
	}
	return l
}
