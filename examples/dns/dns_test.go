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
	"github.com/clusterfx/clusterfx/examples/dns"
	"github.com/clusterfx/clusterfx/hubtest"
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
	s := newSite(t)
	all := map[string]string{
		"without-a-mark":  "%name 60 IN A 192.0.2.99",
		"another-type":    `%name 60 IN TXT "hello"`,
		"another-hub":     `_clusterfx.%name 60 IN TXT "clusterfx/1 hub=x cluster=y attempt=z"`,
		"no-mark":         `_clusterfx.%name 60 IN TXT "clusterfx/2 hub=x"`,
		"another-cluster": `_clusterfx.%name 60 IN TXT "clusterfx/1 hub=%hub cluster=y attempt=z"`,
	}
	for name, theirs := range all {
		s.server.add(strings.NewReplacer("%name", name+"."+zoneName, "%hub", s.hubID()).Replace(theirs))
		s.register(name, at10)
	}
	for name := range all {
		s.waitReady(name, metav1.ConditionFalse, dns.ReasonNameTaken)
		s.moved(name, at11)
		s.waitReady(name, metav1.ConditionFalse, dns.ReasonNameTaken)
		s.deregister(name)
		if n := len(s.server.updates(name)); n != 0 {
			t.Errorf("%s: got %d updates, want 0: %v", name, n, s.server.updates(name))
		}
	}
	if n := s.server.names(); n != len(all) {
		t.Errorf("%d names are left, want %d", n, len(all))
	}
	s.register(edge, at10) // Other records are unaffected.
	s.waitRecord(edge, "300 A 192.0.2.10")
}

// stories are what happens to a record of the name.
func stories(t *testing.T) map[string]func(s *site, name string) {
	t.Helper()
	return map[string]func(s *site, name string){
		"becomes-free": func(s *site, name string) {
			s.server.add(name + "." + zoneName + " 60 IN A 192.0.2.99")
			s.register(name, at10)
			s.waitReady(name, metav1.ConditionFalse, dns.ReasonNameTaken)
			s.server.take(name)
			s.waitReady(name, metav1.ConditionTrue, "Ready")
			s.expectOnce(name)
		},
		// A record whose ownership mark was deleted no longer belongs to the hub.
		"given-up": func(s *site, name string) {
			s.register(name, at10)
			s.waitReady(name, metav1.ConditionTrue, "Ready")
			s.server.take("_clusterfx." + name)
			s.moved(name, at11)
			s.waitReady(name, metav1.ConditionFalse, dns.ReasonNameTaken)
			s.deregister(name)
			s.waitRecord(name, "300 A 192.0.2.10")
		},
		// The module repairs changes that others make to its record, and keeps added records of other types.
		"drift": func(s *site, name string) {
			s.register(name, at10)
			s.waitReady(name, metav1.ConditionTrue, "Ready")
			s.server.add(name + "." + zoneName + " 60 IN A 192.0.2.99")
			s.server.add(name + "." + zoneName + ` 60 IN TXT "theirs"`)
			s.poke(name)
			s.Eventually(func() error {
				if got := s.server.has(name); !slices.Equal(got, []string{"300 A 192.0.2.10", `60 TXT "theirs"`}) {
					return fmt.Errorf("got records %q", got)
				}
				return nil
			})
			s.server.take(name, "_clusterfx."+name)
			s.poke(name)
			s.waitRecord(name, "300 A 192.0.2.10")
			if made := s.server.created(name); made != 2 {
				t.Errorf("record was created %d times, want 2", made)
			}
			updates := s.server.updates(name)
			if first, second := attemptOf(updates[0].text), attemptOf(updates[2].text); first == second || first == "" {
				t.Errorf("attempts: got %q and %q, want two different IDs", first, second)
			}
		},
		// A server ignores a CNAME where there are other records. The Cluster reports that.
		"not-applied": func(s *site, name string) {
			s.register(name, at10)
			s.waitReady(name, metav1.ConditionTrue, "Ready")
			s.server.add(name + "." + zoneName + ` 60 IN TXT "theirs"`)
			s.moved(name, "https://api.example.org")
			s.waitReady(name, metav1.ConditionFalse, dns.ReasonNotApplied)
		},
		"impossible": func(s *site, name string) {
			s.register(name, "https://"+name+"."+zoneName+":6443")
			s.waitReady(name, metav1.ConditionFalse, dns.ReasonNoRecord)
			s.moved(name, at10)
			s.waitReady(name, metav1.ConditionTrue, "Ready")
			s.moved(name, "https://"+name+".clusters.example.com") // The record for the previous address stays.
			s.waitReady(name, metav1.ConditionFalse, dns.ReasonNoRecord)
			s.waitRecord(name, "300 A 192.0.2.10")
			s.deregister(name)
			if left := s.server.has(name); len(left) != 0 {
				t.Errorf("got %q after deregistration, want no record", left)
			}
		},
	}
}

// What others do to a record, and what cannot be a record, is reported, and repaired if it is the module's.
func TestRecord_Stories(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, story := range stories(t) {
		story(s, name)
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
