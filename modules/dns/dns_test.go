// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/modules/dns"
)

const (
	edge = "edge"
	at10 = "https://192.0.2.10:6443"
	at11 = "https://192.0.2.11:6443"
)

func TestRecord_FollowsItsCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register(edge, at10)
	c := s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.waitRecord(edge, "300 A 192.0.2.10")
	if !slices.Contains(c.Finalizers, finalizer) {
		t.Errorf("got finalizers %q", c.Finalizers)
	}
	s.moved(edge, "https://[2001:db8::1]:6443")
	s.waitRecord(edge, "300 AAAA 2001:db8::1")
	s.moved(edge, "https://api.example.org:6443")
	s.waitRecord(edge, "300 CNAME api.example.org.")
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.deregister(edge)
	if left := s.server.names(); left != 0 {
		t.Errorf("got %d names after deregistration, want 0", left)
	}
	s.expectOnce(edge)
	if n := len(s.server.updates(edge)); n != 4 {
		t.Errorf("got %d updates, want 4: %v", n, s.server.updates(edge))
	}
	must(t, s.locksLeft())
}

// A remote that works: the hub's own reconciler reports in the same status, and a restarted hub creates no second
// record.
func TestRecord_OfARemote(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	remote := s.AddRemote(edge)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.waitRecord(edge, "300 A 127.0.0.1")
	remote.WaitReady()
	s.Restart()
	remote.WaitReady()
	s.change(edge, func(c *hubv1.Cluster) { c.Labels = map[string]string{"seen-by": "the-new-hub"} })
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.expectOnce(edge)
	remote.Deregister()
	if left := s.server.names(); left != 0 {
		t.Errorf("got %d names after deregistration, want 0", left)
	}
}

// The module never changes a record without its ownership mark, and creates none under such a name.
func TestRecord_SomebodyElses(t *testing.T) {
	t.Parallel()
	for name, theirs := range map[string]string{
		"a record without a mark":     "edge." + zoneName + " 60 IN A 192.0.2.99",
		"of another type":             "edge." + zoneName + ` 60 IN TXT "hello"`,
		"the mark of another hub":     "_clusterfx.edge." + zoneName + ` 60 IN TXT "clusterfx/1 hub=x cluster=y attempt=z"`,
		"something like a mark":       "_clusterfx.edge." + zoneName + ` 60 IN TXT "clusterfx/2 hub=x"`,
		"the mark of another Cluster": "_clusterfx.edge." + zoneName + ` 60 IN TXT "clusterfx/1 hub=%hub cluster=y attempt=z"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server.add(strings.ReplaceAll(theirs, "%hub", s.hubID()))
			s.register(edge, at10)
			s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNameTaken)
			s.moved(edge, at11)
			s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNameTaken)
			s.deregister(edge)
			if n := len(s.server.updates(edge)); n != 0 || s.server.names() != 1 {
				t.Fatalf("got %d updates, want 0: %v", n, s.server.updates(edge))
			}
			s.register("other", at10) // Other records are unaffected.
			s.waitRecord("other", "300 A 192.0.2.10")
		})
	}
}

func TestRecord_NameBecomesFree(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server.add("edge." + zoneName + " 60 IN A 192.0.2.99")
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNameTaken)
	s.server.take(edge)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.expectOnce(edge)
}

// A record whose ownership mark was deleted no longer belongs to the hub.
func TestRecord_GivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.server.take("_clusterfx.edge")
	s.moved(edge, at11)
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNameTaken)
	s.deregister(edge)
	s.waitRecord(edge, "300 A 192.0.2.10")
}

// The module repairs changes that others make to its record, and keeps added records of other types.
func TestRecord_Drift(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.server.add("edge." + zoneName + " 60 IN A 192.0.2.99")
	s.server.add("edge." + zoneName + ` 60 IN TXT "theirs"`)
	s.poke(edge)
	s.Eventually(func() error {
		if got := s.server.has(edge); !slices.Equal(got, []string{"300 A 192.0.2.10", `60 TXT "theirs"`}) {
			return fmt.Errorf("got records %q", got)
		}
		return nil
	})
	s.server.take(edge, "_clusterfx.edge")
	s.poke(edge)
	s.waitRecord(edge, "300 A 192.0.2.10")
	if made := s.server.created(edge); made != 2 {
		t.Errorf("record was created %d times, want 2", made)
	}
	updates := s.server.updates(edge)
	if first, second := attemptOf(updates[0].text), attemptOf(updates[2].text); first == second || first == "" {
		t.Errorf("attempts: got %q and %q, want two different IDs", first, second)
	}
}

// A server ignores a CNAME where there are other records. The Cluster reports that.
func TestRecord_NotApplied(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.server.add("edge." + zoneName + ` 60 IN TXT "theirs"`)
	s.moved(edge, "https://api.example.org")
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNotApplied)
}

func TestRecord_Impossible(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register(edge, "https://edge."+zoneName+":6443")
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNoRecord)
	s.moved(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	s.moved(edge, "https://edge.clusters.example.com") // The record for the previous address stays.
	s.waitReady(edge, metav1.ConditionFalse, dns.ReasonNoRecord)
	s.waitRecord(edge, "300 A 192.0.2.10")
	s.deregister(edge)
	if left := s.server.names(); left != 0 {
		t.Errorf("got %d names after deregistration, want 0", left)
	}
}

// Without a server the module does nothing.
func TestModule_Unconfigured(t *testing.T) {
	t.Parallel()
	s := &site{Hub: hubtest.New(t, hubtest.Modules(dns.Module)), t: t}
	s.register(edge, at10)
	c := cluster(edge)
	s.WaitFor(c, func() error {
		if c.Status.Server == "" {
			return errors.New("not yet")
		}
		return nil
	})
	s.poke(edge)
	s.WaitCached(c)
	must(t, s.Client().Get(t.Context(), client.ObjectKeyFromObject(c), c))
	if slices.Contains(c.Finalizers, finalizer) || meta.FindStatusCondition(c.Status.Conditions, "DNSReady") != nil {
		t.Errorf("got finalizers %q, conditions %v of an unconfigured module", c.Finalizers, c.Status.Conditions)
	}
}

// poke triggers a reconcile of a Cluster.
func (s *site) poke(name string) {
	s.t.Helper()
	s.change(name, func(c *hubv1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations["example.com/poke"] += "."
	})
}

func (s *site) hubID() string {
	s.t.Helper()
	var own metav1.PartialObjectMetadata
	own.SetGroupVersionKind(schemaNamespace())
	must(s.t, s.Client().Get(s.t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &own))
	return string(own.UID)
}

// locksLeft fails if there is a Lease of a record.
func (s *site) locksLeft() error {
	var all coordinationv1.LeaseList
	if err := s.Client().List(context.WithoutCancel(s.t.Context()), &all); err != nil {
		return err
	}
	for _, lease := range all.Items {
		if strings.HasPrefix(lease.Name, "guard-dns-") {
			return fmt.Errorf("Lease %s remains", lease.Name)
		}
	}
	return nil
}

// attemptOf returns the attempt that an ownership mark in an update names.
func attemptOf(update string) string {
	_, attempt, _ := strings.Cut(update, "attempt=")
	attempt, _, _ = strings.Cut(attempt, `"`)
	return attempt
}
