// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
)

// killsVariable sets the number of times that the hub is killed; the default is short enough for CI.
const (
	killsVariable = "CLUSTERFX_DNS_KILLS"
	kills         = 6
)

// A hub is repeatedly killed while it creates records, each time in another process, with exactly the permissions that
// "hub rbac" prints. In the end each record exists, and was created once.
func TestRecord_HubIsKilled(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./modules/dns TestServer_Misbehaves")
	times := kills
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		times, err = strconv.Atoi(text)
		must(t, err)
	}
	server := newNameserver(t)
	s := &site{t: t, server: server, Hub: hubtest.New(t)}
	s.Stop() // Hubs in other processes replace it.
	s.Create(secretWith(keyText))
	k := &killer{site: s, args: s.prepare()}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed: %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	begin := time.Now()
	var in [4]int
	for i := range times {
		at := moment{stage: stage(random.IntN(len(in))), later: random.Float64()}
		in[at.stage]++
		s.register(nameOf(i), fmt.Sprintf("https://192.0.2.%d:6443", i+1))
		k.kill(at)
	}
	t.Logf("%d kills in %s: %v at the stages received, applied, answered and anywhere",
		times, time.Since(begin).Round(time.Second/10), in)
	k.finish(times)
}

func nameOf(i int) string { return "c-" + strconv.Itoa(i) }

// moment is the time at which a hub is killed.
type moment struct {
	stage stage
	later float64 // a random fraction of the time after a response, or after the start
}

// killer runs hubs and kills them.
type killer struct {
	*site
	args []string
}

// kill runs a hub until the moment is reached. At a stage of an update, the hub is dead before the server continues.
func (k *killer) kill(at moment) {
	k.t.Helper()
	dead := make(chan struct{})
	hub := k.start()
	die := sync.OnceFunc(func() {
		_ = hub.Process.Kill()
		_ = hub.Wait()
		close(dead)
	})
	defer die()
	k.server.onStage(func(s stage) {
		if s != at.stage {
			return
		}
		if s == answered {
			<-time.After(time.Duration(at.later * float64(40*time.Millisecond)))
		}
		die()
	})
	defer k.server.onStage(nil)
	limit := 30 * time.Second
	if at.stage == anywhere {
		limit = time.Duration(at.later * float64(2*time.Second))
	}
	select {
	case <-dead:
	case <-time.After(limit):
		if at.stage != anywhere {
			die()
			k.t.Fatalf("no update reached stage %d; output of the hub:\n%s", at.stage, hub.Stderr)
		}
	}
}

// finish lets a hub run, and checks the state that the killed hubs have left.
func (k *killer) finish(clusters int) {
	k.t.Helper()
	begin := time.Now()
	hub := k.start()
	for i := range clusters {
		k.waitReady(nameOf(i), metav1.ConditionTrue, "Ready")
		k.waitRecord(nameOf(i), fmt.Sprintf("300 A 192.0.2.%d", i+1))
		k.expectOnce(nameOf(i))
		if n := len(k.server.updates(nameOf(i))); n != 1 {
			k.t.Errorf("got %d updates of %s, want 1", n, nameOf(i))
		}
	}
	k.t.Logf("all Clusters are Ready after %s", time.Since(begin).Round(time.Second/10))
	for i := range clusters { // This hub is also killed, at any point.
		k.Delete(cluster(nameOf(i)))
	}
	must(k.t, hub.Process.Kill())
	_ = hub.Wait()
	k.start()
	for i := range clusters {
		k.WaitGone(cluster(nameOf(i)))
	}
	must(k.t, k.server.isEmpty())
	must(k.t, k.locksLeft())
}

// start runs a hub, and kills it when the test ends.
func (k *killer) start() *exec.Cmd {
	k.t.Helper()
	hub := k.command(append([]string{"run"}, k.args...)...)
	hub.Stderr = &bytes.Buffer{}
	must(k.t, hub.Start())
	k.t.Cleanup(func() {
		_ = hub.Process.Kill()
		_ = hub.Wait()
	})
	return hub
}

func (s *site) command(args ...string) *exec.Cmd {
	s.t.Helper()
	self, err := os.Executable()
	must(s.t, err)
	hub := exec.CommandContext(context.WithoutCancel(s.t.Context()), self, args...)
	hub.Env = append(os.Environ(), asHub+"=1")
	return hub
}

// prepare grants a user the roles that the hub prints for itself, and returns the arguments of a hub that runs as that
// user.
func (s *site) prepare() []string {
	s.t.Helper()
	s.grant("the-hub")
	dir := s.t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		must(s.t, os.WriteFile(path, text, 0o600))
		return path
	}
	module, err := json.Marshal(map[string]any{
		"apiVersion": "config.clusterfx.dev/v1alpha1", "kind": "HubConfiguration",
		"modules": []any{map[string]any{"name": "dns", "config": json.RawMessage(configFor(s.t, s.server.address))}},
	})
	must(s.t, err)
	return []string{
		"--kubeconfig=" + write("kubeconfig", s.kubeconfigAs("the-hub")), "--config=" + write("hub.yaml", module),
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}
}

// grant grants a user the roles of a hub with the module.
func (s *site) grant(user string) {
	s.t.Helper()
	text, err := s.command("rbac", "--in=hub", "--output=json").Output()
	must(s.t, err)
	var roles unstructured.UnstructuredList
	must(s.t, roles.UnmarshalJSON(text))
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	for i := range roles.Items {
		role := &roles.Items[i]
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
		meta := metav1.ObjectMeta{Name: role.GetName(), Namespace: role.GetNamespace()}
		var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
		if role.GetNamespace() != "" {
			binding = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
		}
		s.Create(role, binding)
	}
}

// kubeconfigAs returns a kubeconfig for the hub's API server in which an administrator impersonates a user.
func (s *site) kubeconfigAs(user string) []byte {
	s.t.Helper()
	c := s.Config()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"hub": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"hub": {
			Token: c.BearerToken, ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Impersonate: user,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"hub": {Cluster: "hub", AuthInfo: "hub"}},
		CurrentContext: "hub",
	})
	must(s.t, err)
	return text
}
