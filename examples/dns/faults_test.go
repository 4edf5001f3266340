// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/examples/dns"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// A server that does not respond as it should is reported, and no record is created twice.
func TestServer_Misbehaves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, tc := range map[string]struct {
		behavior behavior
		reason   string
	}{
		"hangs":   {behavior{silent: true}, dns.ReasonServerUnreachable},
		"refuses": {behavior{refuse: true}, dns.ReasonRefused},
		// An unsigned response has no effect: it may come from another server.
		"does-not-sign": {behavior{bare: true}, dns.ReasonServerUnreachable},
	} {
		s.server.set(tc.behavior)
		s.register(name, at10)
		s.waitReady(name, metav1.ConditionFalse, tc.reason)
		if left := s.server.has(name); len(left) != 0 {
			t.Errorf("%s: got the records %q, want none", name, left)
		}
		s.server.set(behavior{})
		s.waitReady(name, metav1.ConditionTrue, "Ready")
		s.expectOnce(name)
		s.deregister(name)
	}
	// The server applies an update and its response is lost. Once responses arrive again, the module finds the record by the ID of
	// the attempt and does not create it again.
	s.server.set(behavior{mute: true})
	s.register(edge, at10)
	// The Cluster does not always report the missing response: the Cluster may have changed meanwhile, and the next
	// read finds the record.
	s.waitRecord(edge, "300 A 192.0.2.10")
	s.server.set(behavior{})
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.expectOnce(edge)
	if n := len(s.server.updates(edge)); n != 1 {
		t.Errorf("got %d updates, want 1", n)
	}
	s.server.set(behavior{mute: true})
	s.Delete(cluster(edge))
	s.Eventually(func() error { return s.server.isEmpty() })
	s.server.set(behavior{})
	s.WaitGone(cluster(edge))
}

// The server applies the first request long after the hub's timeout: after the hub has read the zone again, and before
// the hub has the lock again. The hub finds the ID of the attempt.
func TestServer_IsLate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var updates, questions atomic.Int32
	late, done := make(chan struct{}), make(chan struct{})
	s.server.onStage(func(at stage) {
		switch {
		case at == received && updates.Add(1) == 1:
			await(t, late)
		case at == applied && updates.Load() == 1:
			close(done)
		case at == asked && updates.Load() == 1 && questions.Add(1) == 1:
			close(late)
			await(t, done) // and this response is out of date
		}
	})
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.expectOnce(edge)
	if n := updates.Load(); n != 1 {
		t.Errorf("server received %d updates, want 1", n)
	}
}

// Two requests of one attempt are in flight. Regardless of their order, the server applies only the first.
func TestServer_IsLateTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var updates, done atomic.Int32
	second, first := make(chan struct{}), make(chan struct{})
	s.server.onStage(func(at stage) {
		switch {
		case at == received && updates.Add(1) == 1:
			await(t, second)
		case at == received && updates.Load() == 2:
			close(second)
			await(t, first)
		case at == applied && done.Add(1) == 1:
			close(first)
		}
	})
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.expectOnce(edge)
	if n := updates.Load(); n != 2 {
		t.Errorf("server received %d updates, want 2", n)
	}
}

// await returns when the channel is closed, or the test has ended.
func await(t testing.TB, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-t.Context().Done():
	}
}

// The module reads the key for each use, and the key appears in no log, event or status.
func TestKey(t *testing.T) {
	t.Parallel()
	server, log := newNameserver(t), &diary{}
	s := &site{t: t, server: server, Hub: hubtest.New(t, hubtest.Modules(dns.Module), hubtest.HubOptions(func(o *app.Options) {
		o.Log = funcr.New(log.write, funcr.Options{Verbosity: 10})
		o.Registry.ModuleConfigs = []moduleconfig.Config{{Name: "dns", Config: configFor(t, server.address)}}
	}))}
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonKeyNotUsable)
	secret := secretWith(unreadable)
	s.Create(secret)
	s.rekey(map[string]string{"another": keyText}, edge)
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonKeyNotUsable)
	s.rekey(map[string]string{"secret": wrongKey}, edge)
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonRefused)
	s.rekey(map[string]string{"secret": unreadable}, edge)
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonKeyNotUsable)
	s.rekey(map[string]string{"secret": keyText + "\n"}, edge)
	c := s.waitReady(edge, metav1.ConditionTrue, "Ready")
	log.write("", fmt.Sprintf("%+v", c.Status))
	var events eventsv1.EventList
	must(t, s.Client().List(t.Context(), &events))
	for i := range events.Items {
		log.write("", events.Items[i].String())
	}
	text := log.read()
	if !strings.Contains(text, dns.ReasonRefused) || !strings.Contains(text, dns.ReasonKeyNotUsable) {
		t.Error("log lacks the reasons Refused or KeyNotUsable")
	}
	for _, key := range []string{keyText, wrongKey, unreadable} {
		if strings.Contains(text, key) {
			t.Errorf("key %s is in the log, an event or the status", key)
		}
	}
}

const (
	wrongKey   = "YW5vdGhlci1rZXktdGhhdC1ub2JvZHkta25vd3M="
	unreadable = "!this-is-no-base64-at-all!"
)

// rekey replaces the data of the Secret, and triggers a reconcile of these Clusters.
func (s *site) rekey(data map[string]string, clusters ...string) {
	s.t.Helper()
	s.Eventually(func() error {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: secretName}
		if err := s.Client().Get(s.t.Context(), key, secret); err != nil {
			return err
		}
		secret.Data, secret.StringData = nil, data
		return s.Client().Update(s.t.Context(), secret)
	})
	for _, name := range clusters {
		s.poke(name)
	}
}

// diary is a log that tests can read.
type diary struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

func (d *diary) write(_, line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.WriteString(line + "\n")
}

func (d *diary) read() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}
