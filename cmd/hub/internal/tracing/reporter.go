// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// reporter says when the exporter stops working, and when it works again.
type reporter struct {
	sdktrace.SpanExporter
	log logr.Logger

	mu   sync.Mutex // protects lost; not held during an export
	lost int        // spans since the last export that worked
}

// ExportSpans logs errors itself.
func (r *reporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	r.mu.Lock()
	before := r.lost
	if r.lost = 0; err != nil {
		r.lost = before + len(spans)
	}
	r.mu.Unlock()
	switch {
	case err != nil && before == 0:
		r.log.Info("Traces cannot be exported; they are dropped until the collector takes them again", "error", short(err))
	case err == nil && before > 0:
		r.log.Info("Traces are exported again", "lost", before)
	}
	return nil
}

// maxError is in bytes; a collector may respond with a whole page.
const maxError = 256

func short(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
