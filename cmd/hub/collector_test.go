// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

type collector struct {
	url string

	mu       sync.Mutex // protects the fields below
	spans    []span
	resource map[string]string
}

// span is a span with its attributes as text.
type span struct {
	name, id, parent string
	failed           bool
	about            map[string]string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Errorf("the hub exports invalid OTLP: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf") // of an empty message
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) take(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("a request for %s of type %s", r.URL.Path, r.Header.Get("Content-Type"))
	}
	var request coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.GetResourceSpans() {
		c.resource = texts(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span{
					name: s.GetName(), id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
					failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR, about: texts(s.GetAttributes()),
				})
			}
		}
	}
	return nil
}

func texts(all []*commonpb.KeyValue) map[string]string {
	about := map[string]string{}
	for _, one := range all {
		switch v := one.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			about[one.GetKey()] = v.StringValue
		default:
			about[one.GetKey()] = fmt.Sprint(one.GetValue())
		}
	}
	return about
}

func (c *collector) find(name string, about map[string]string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []span
	for _, s := range c.spans {
		if s.name == name && s.has(about) {
			found = append(found, s)
		}
	}
	return found
}

func (s span) has(about map[string]string) bool {
	for key, value := range about {
		if got, ok := s.about[key]; !ok || value != "" && got != value {
			return false
		}
	}
	return true
}

func (c *collector) parentOf(child span) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.id == child.parent {
			return s.name
		}
	}
	return ""
}

// all returns all exported data as text.
func (c *collector) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.resource, c.spans)
}

// wanted is an expected span with these attributes (empty for any value) and this parent.
type wanted struct {
	name   string
	about  map[string]string
	parent string
}

func wantedSpans() []wanted {
	one := func(more ...string) map[string]string {
		about := map[string]string{"cluster": "one"}
		for i := 0; i < len(more); i += 2 {
			about[more[i]] = more[i+1]
		}
		return about
	}
	return []wanted{
		{"app.start", one("epoch", ""), ""},
		{"app.turn", one("epoch", ""), "app.start"},
		{"app.connect", one("epoch", ""), "app.start"},
		{"GET discovery", one("to", "remote", "http.response.status_code", "int_value:200"), ""}, // beside the first question for the identity
		{"app.build", one("epoch", ""), "app.start"},
		{"app.hooks", one("epoch", ""), "app.start"},
		{"app.sync", one("epoch", ""), "app.start"},
		{"probe", one(), ""},
		{"GET namespaces", one("to", "remote"), "probe"},
		{"GET configmaps", one("to", "remote", "watch", "bool_value:true"), ""},
		{"reconcile", one("controller", "cluster", "reconcileID", ""), ""},
		{"reconcile", one("module", "talker", "reconcileID", "", "result", "success"), ""},
		{"reconcile", one("module", "talker", "reconcileID", "", "result", "error", "error.type", "error"), ""},
		{"PATCH configmaps", one("module", "talker", "to", "remote", "k8s.namespace.name", "default"), "reconcile"},
		{"WithClient", one(), ""},
	}
}

func (w wanted) isIn(c *collector) error {
	found := c.find(w.name, w.about)
	if len(found) == 0 {
		return fmt.Errorf("no span %s with %v", w.name, w.about)
	}
	for _, s := range found {
		if w.parent == c.parentOf(s) {
			return nil
		}
	}
	return fmt.Errorf("the span %s with %v has the parent %q, want %q", w.name, w.about, c.parentOf(found[0]), w.parent)
}
