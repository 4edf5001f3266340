// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Reasons of Degraded, the most important first.
const (
	// ReasonNotConfigured: a module needs NATS, and the hub has no server.
	ReasonNotConfigured = "NATSNotConfigured"
	// ReasonUnavailable: there is no connection.
	ReasonUnavailable = "NATSUnavailable"
	// ReasonWritesRefused: the server refuses writes to a bucket: the account is full, or a permission is missing.
	ReasonWritesRefused = "WritesRefused"
	// ReasonBucketUnavailable: a bucket does not exist, or its watch is lost.
	ReasonBucketUnavailable = "BucketUnavailable"
	// ReasonBucketChanged: a bucket was recreated or restored, and is not accepted yet.
	ReasonBucketChanged = "BucketChanged"
	// ReasonInvalidKeys: values have keys that are no keys of entities, which are not followed.
	ReasonInvalidKeys = "InvalidKeys"
)

const observeEvery = time.Second

// patience: a watch that begins again is no problem.
const patience = 5 * time.Second

func (c *Connection) observe(ctx context.Context) {
	changed := map[string]bool{}
	for pause(ctx, observeEvery) {
		all := c.followed()
		if c.environment.Degraded != nil {
			c.environment.Degraded(c.problem(all))
		}
		for _, b := range all {
			now := b.Health().Changed
			if now != changed[b.Name()] && c.environment.Event != nil {
				c.record(b.Name(), now)
			}
			changed[b.Name()] = now
		}
	}
}

func (c *Connection) record(name string, isChanged bool) {
	if isChanged {
		c.environment.Event(corev1.EventTypeWarning, ReasonBucketChanged, "Freeze", changedMessage(name))
		return
	}
	c.environment.Event(corev1.EventTypeNormal, "BucketAccepted", "Collect", fmt.Sprintf("Bucket %s is accepted", name))
}

func changedMessage(name string) string {
	return fmt.Sprintf("Bucket %s was recreated or restored from a backup: its entities are followed, and objects of entities that it lacks stay; "+
		"check it, and run hub entity accept %s", name, name)
}

// isRunning is false on a standby.
func (c *Connection) isRunning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start != nil
}

func (c *Connection) followed() []*bucket.Bucket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.buckets), func(a, b *bucket.Bucket) int { return strings.Compare(a.Name(), b.Name()) })
}

// problem returns the first problem; empty for none.
func (c *Connection) problem(all []*bucket.Bucket) (reason, message string) {
	if len(all) == 0 {
		return "", "" // NATS is not needed.
	}
	switch err := c.Connected(); {
	case errors.Is(err, ErrNotConfigured):
		return ReasonNotConfigured, fmt.Sprintf("modules follow %s: set --nats-url, or remove these modules", names(all))
	case err != nil:
		return ReasonUnavailable, fmt.Sprintf("%v; modules wait for %s", err, names(all))
	}
	for _, b := range all {
		if err := b.Health().Refused; err != nil && !errors.Is(err, jetstream.ErrNoStreamResponse) { // That of a bucket without a stream.
			return ReasonWritesRefused, fmt.Sprintf("the server refuses writes to bucket %s: %v", b.Name(), err)
		}
	}
	for _, b := range all {
		if h := b.Health(); !h.Complete && time.Since(h.Since) > patience && h.Err != nil {
			return ReasonBucketUnavailable, fmt.Sprintf("bucket %s is not followed: %v", b.Name(), h.Err)
		}
	}
	for _, b := range all {
		if b.Health().Changed {
			return ReasonBucketChanged, changedMessage(b.Name())
		}
	}
	for _, b := range all {
		if n := b.Health().InvalidKeys; n > 0 {
			return ReasonInvalidKeys, fmt.Sprintf("bucket %s has %d keys that are not followed: a key has letters, digits and - / _ = .; "+
				"purge these subjects of the stream KV_%[1]s", b.Name(), n)
		}
	}
	return "", ""
}

func names(all []*bucket.Bucket) string {
	const most = 5
	var text []string
	for _, b := range all[:min(len(all), most)] {
		text = append(text, b.Name())
	}
	if further := len(all) - most; further > 0 {
		return fmt.Sprintf("the buckets %s and %d others", strings.Join(text, ", "), further)
	}
	return "the buckets " + strings.Join(text, ", ")
}

type collector struct {
	of                                       *Connection
	connected, complete, changed, keys, lost *prometheus.Desc
}

var _ prometheus.Collector = (*collector)(nil)

func newCollector(c *Connection) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("clusterfx_"+name, help, labels, nil)
	}
	return &collector{
		of:        c,
		connected: desc("nats_connected", "1 while the hub is connected to NATS. Absent while no module follows a bucket, and on a standby."),
		complete:  desc("bucket_complete", "1 while the copy of a NATS bucket is complete and current.", "bucket"),
		changed:   desc("bucket_changed", "1 while a NATS bucket that was recreated or restored is not accepted.", "bucket"),
		keys:      desc("bucket_keys", "Keys with a value in the copy of a NATS bucket.", "bucket"),
		lost:      desc("bucket_watch_losses_total", "How often the watch of a NATS bucket was lost and the bucket listed again.", "bucket"),
	}
}

func (m *collector) Describe(out chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{m.connected, m.complete, m.changed, m.keys, m.lost} {
		out <- one
	}
}

func (m *collector) Collect(out chan<- prometheus.Metric) {
	all := m.of.followed()
	if len(all) == 0 || !m.of.isRunning() { // A hub part may follow a bucket on a standby, too.
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(m.connected, number(m.of.Connected() == nil))
	for _, b := range all {
		h := b.Health()
		gauge(m.complete, number(h.Complete), b.Name())
		gauge(m.changed, number(h.Changed), b.Name())
		gauge(m.keys, float64(b.Len()), b.Name())
		out <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(b.Losses()), b.Name())
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
