// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/examples/dns"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }

const (
	secretName = "dns-key"
	finalizer  = "pipeline.clusterfx.dev/dns"
)

// site is a hub with the module, and a nameserver.
type site struct {
	*hubtest.Hub
	t      testing.TB
	server *nameserver
}

// newSite starts a hub without remotes, and a nameserver. The configuration has the address of this nameserver.
func newSite(t testing.TB, changes ...func(*dns.Config)) *site {
	t.Helper()
	server := newNameserver(t)
	s := siteFor(t, server.address, keyText, changes...)
	s.server = server
	return s
}

// siteFor starts a hub whose module updates the server at an address, with the permissions that the module declares.
func siteFor(t testing.TB, address, key string, changes ...func(*dns.Config)) *site {
	t.Helper()
	hub := hubtest.New(t, hubtest.Modules(dns.Module), hubtest.DeclaredHubRights(), hubtest.HubOptions(func(o *app.Options) {
		o.Registry.ModuleConfigs = []moduleconfig.Config{{Name: "dns", Config: configFor(t, address, changes...)}}
	}))
	s := &site{Hub: hub, t: t}
	s.Create(secretWith(key))
	return s
}

// configFor returns the configuration as an operator writes it.
func configFor(t testing.TB, address string, changes ...func(*dns.Config)) []byte {
	t.Helper()
	c := dns.Config{
		Server: address, Zone: zoneName, TimeoutSeconds: 1, LockSeconds: 1,
		Key: dns.Key{Name: keyName, SecretRef: dns.SecretRef{Name: secretName}},
	}
	for _, f := range changes {
		f(&c)
	}
	text, err := json.Marshal(c)
	must(t, err)
	return text
}

func secretWith(key string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: hubv1.DefaultNamespace},
		StringData: map[string]string{"secret": key},
	}
}

// register creates a paused Cluster: the hub reports its server, and does not connect to it.
func (s *site) register(name, server string) {
	s.t.Helper()
	s.Create(s.pausedCluster(name, server)...)
}

// pausedCluster returns a Cluster and the Secret that it needs.
func (s *site) pausedCluster(name, server string) []client.Object {
	return []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace},
			Data: map[string][]byte{
				"server": []byte("https://remote.invalid"), "token": []byte("token"), "ca.crt": s.Config().CAData,
			},
		},
		&hubv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: hubv1.ClusterSpec{
				KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}, Server: server, State: hubv1.ClusterPaused,
			},
		},
	}
}

// deregister deletes a Cluster and waits until it is removed.
func (s *site) deregister(name string) {
	s.t.Helper()
	c := cluster(name)
	s.Delete(c)
	s.WaitGone(c)
}

// moved changes the server of a Cluster.
func (s *site) moved(name, server string) {
	s.t.Helper()
	s.change(name, func(c *hubv1.Cluster) { c.Spec.Server = server })
}

func (s *site) change(name string, f func(*hubv1.Cluster)) {
	s.t.Helper()
	s.Eventually(func() error {
		c := cluster(name)
		if err := s.Client().Get(s.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		f(c)
		return s.Client().Update(s.t.Context(), c)
	})
}

// waitReady waits until DNSReady has this status and reason.
func (s *site) waitReady(name string, status metav1.ConditionStatus, reason string) *hubv1.Cluster {
	s.t.Helper()
	c := cluster(name)
	s.WaitFor(c, func() error {
		ready := meta.FindStatusCondition(c.Status.Conditions, "DNSReady")
		if ready == nil || ready.Status != status || ready.Reason != reason || ready.ObservedGeneration != c.Generation {
			return fmt.Errorf("got DNSReady %+v", ready)
		}
		return nil
	})
	return c
}

// waitRecord waits until the name has this record only, as text.
func (s *site) waitRecord(name, record string) {
	s.t.Helper()
	s.Eventually(func() error {
		if got := s.server.has(name); !slices.Equal(got, []string{record}) {
			return fmt.Errorf("records of %s: got %q", name, got)
		}
		return nil
	})
}

// expectOnce fails the test unless the record of the name was created once.
func (s *site) expectOnce(name string) {
	s.t.Helper()
	if made := s.server.created(name); made != 1 {
		s.t.Errorf("record of %s was created %d times, want 1: %v", name, made, s.server.updates(name))
	}
}

func schemaNamespace() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("Namespace")
}

func cluster(name string) *hubv1.Cluster {
	return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
