// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func clientThrough(t *testing.T, p *fault.Proxy, kubeconfig []byte) *kubernetes.Clientset {
	t.Helper()
	through, err := p.Kubeconfig(kubeconfig)
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(through)
	must(t, err)
	return clientWith(t, config)
}

// clientWith returns a client without a timeout.
func clientWith(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// A client verifies the certificate of a real API server through the proxy. Its requests fail while connections are
// refused and succeed afterwards, and the server performs a request whose response is lost.
func TestWithAnAPIServer(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "remote")
	p := fleettest.Proxy(t, cluster.Server())
	client := clientThrough(t, p, cluster.Kubeconfig())
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatalf("list through the proxy: %v", err)
	}
	set(t, p, fault.Refuse())
	testkit.Fails(t, testkit.Err(maps.List(t.Context(), metav1.ListOptions{})), "list while connections are refused")
	set(t, p, fault.Pass())
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatalf("list after connections were refused: %v", err)
	}
	set(t, p, fault.LoseAnswers())
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written-in-vain"}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	created := make(chan error, 1)
	go func() {
		_, err := maps.Create(ctx, one, metav1.CreateOptions{})
		created <- err
	}()
	direct := clientWith(t, cluster.Config()).CoreV1().ConfigMaps("default")
	eventually(t, "the object exists", func() bool {
		_, err := direct.Get(t.Context(), one.Name, metav1.GetOptions{})
		return err == nil
	})
	cancel()
	testkit.ErrorIs(t, <-created, context.Canceled, "create whose response is lost")
}

// A fault cuts a watch of a real API server. After the fault the client resumes the watch at its last event, and gets
// the event that it has missed.
func TestRefuse_AWatch(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "remote")
	p := fleettest.Proxy(t, cluster.Server())
	maps := clientThrough(t, p, cluster.Kubeconfig()).CoreV1().ConfigMaps("kube-public")
	direct := clientWith(t, cluster.Config()).CoreV1().ConfigMaps("kube-public")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	create := func(name string) {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"watched": "true"}}}
		if _, err := direct.Create(ctx, one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = direct.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}) })
	}
	last := "" // the version at which the watch begins
	follow := func(name string) watch.Interface {
		w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: last, LabelSelector: "watched"})
		must(t, err)
		e := <-w.ResultChan()
		seen, ok := e.Object.(*corev1.ConfigMap)
		if !ok || seen.Name != name {
			t.Fatalf("got event %s of %v, want %s", e.Type, e.Object, name)
		}
		last = seen.ResourceVersion
		return w
	}
	create("before-the-cut")
	w := follow("before-the-cut")
	set(t, p, fault.Refuse())
	create("during-the-cut")
	for e := range w.ResultChan() {
		t.Logf("the watch ends with %s: %v", e.Type, e.Object)
		if _, seen := e.Object.(*corev1.ConfigMap); seen {
			t.Error("an event arrives while connections are refused")
		}
	}
	if ctx.Err() != nil {
		t.Fatal("the fault does not cut the watch")
	}
	set(t, p, fault.Pass())
	follow("during-the-cut").Stop()
}

// A watch without events does not begin behind a buffering proxy: even its response headers arrive only after the fault
// ends.
func TestHold_AWatch(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "remote")
	p := fleettest.Proxy(t, cluster.Server())
	client := clientThrough(t, p, cluster.Kubeconfig())
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Fatalf("version: %v", err)
	}
	set(t, p, fault.Hold())
	began := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		w, err := client.CoreV1().Secrets("default").Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		began <- err
	}()
	select {
	case err := <-began:
		t.Fatalf("the watch begins while the proxy holds responses: %v", err)
	case <-time.After(moment):
	}
	set(t, p, fault.Pass())
	testkit.NoError(t, <-began, "watch")
}

func TestKubeconfig_KeepsTheNameToVerify(t *testing.T) {
	t.Parallel()
	const named = `{"kind":"Config","apiVersion":"v1","clusters":[
		{"name":"plain","cluster":{"server":"https://api.example.com:6443/path"}},
		{"name":"other","cluster":{"server":"https://10.0.0.1:6443","tls-server-name":"kubernetes"}},
		{"name":"local","cluster":{"server":"https://127.0.0.1:6443"}}]}`
	p := fleettest.Proxy(t, "https://api.example.com")
	through, err := p.Kubeconfig([]byte(named))
	must(t, err)
	config, err := clientcmd.Load(through)
	must(t, err)
	for name, want := range map[string][2]string{
		"plain": {"https://" + p.Addr() + "/path", "api.example.com"},
		"other": {"https://" + p.Addr(), "kubernetes"},
		"local": {"https://" + p.Addr(), ""},
	} {
		if got := config.Clusters[name]; got.Server != want[0] || got.TLSServerName != want[1] {
			t.Errorf("%s: got server %s, name %q; want %q", name, got.Server, got.TLSServerName, want)
		}
	}
	testkit.Fails(t, testkit.Err(p.Kubeconfig([]byte("\tno kubeconfig"))), "Kubeconfig accepts text that is not a kubeconfig")
}
