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

// collector receives traces over OTLP.
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

// find returns the spans with this name and these attributes.
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

// parentOf returns the name of the parent of a span.
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
