// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// The scripts in testdata/script use the command line against a hub that runs, and two remotes that are not registered at first. The
// contexts of the kubeconfig are hub, edge and spare, and further contexts for users with few permissions, such as hub-viewer.
func TestScripts(t *testing.T) {
	t.Parallel()
	playScripts(t, "script", fleettest.Borrow(t, pool.Hub), fleettest.Borrow(t, pool.Remote), fleettest.Borrow(t, pool.Remote))
}

// The scripts in testdata/drain drain replicas.
func TestScripts_Drain(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/replica TestReplica_AllDrained")
	t.Parallel()
	playScripts(t, "drain", fleettest.Borrow(t, pool.Hub), fleettest.Borrow(t, pool.Remote), fleettest.Borrow(t, pool.Remote))
}

// The scripts in testdata/lasting need the controller of tokens that do not expire.
func TestScripts_LastingTokens(t *testing.T) {
	fleettest.Slow(t, "nothing: only kube-controller-manager issues tokens that do not expire")
	t.Parallel()
	f := fleettest.New(t, fleet.Options{ControllerManager: true})
	playScripts(t, "lasting", createAll(t, f, "hub", "edge", "spare")...)
}

// playScripts runs the scripts in a folder against clusters of their own.
func playScripts(t *testing.T, folder string, clusters ...*fleet.Cluster) {
	t.Helper()
	testscript.RunT(inOrder{t}, testscript.Params{
		Dir:                 filepath.Join("testdata", folder),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("CLUSTERFX_UPDATE_SCRIPTS") != "",
		Setup:               newPlayground(t, clusters).setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually": eventuallyPrints,
			"exits":      exitsWith,
			"objects":    printObjectsOf,
		},
	})
}

// inOrder runs scripts one after the other, because they share a playground. Scripts that waited for each other as
// parallel tests would keep other tests from running.
type inOrder struct{ *testing.T }

func (inOrder) Parallel() {}

func (t inOrder) Run(name string, script func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { script(inOrder{t}) })
}

// Verbose reports whether scripts that pass are logged, too.
func (inOrder) Verbose() bool { return testing.Verbose() }

// playground is a hub and remotes for scripts. One script at a time may use it.
type playground struct {
	kubeconfig []byte
	programs   string // a folder with hub, kubectl and kubectl-clusterfx
	hub        client.Client
	remotes    []client.Client
	life       context.Context //nolint:containedctx // the test's, which scripts cannot hand over
}

func newPlayground(t *testing.T, clusters []*fleet.Cluster) *playground {
	t.Helper()
	hub, edge := clusters[0], clusters[1]
	path := install(t, hub)
	start(
		t, "run", "--kubeconfig="+path, "--allow-cidr=127.0.0.0/8", "--metrics-bind-address=0",
		"--health-probe-bind-address=0",
	)
	p := &playground{programs: programs(t), hub: clientFor(t, hub), life: context.WithoutCancel(t.Context())}
	for _, remote := range clusters[1:] {
		p.remotes = append(p.remotes, clientFor(t, remote))
	}
	all := clientcmdapi.NewConfig()
	for i, name := range []string{"hub", "edge", "spare"} {
		addContext(t, all, name, clusters[i].Kubeconfig())
	}
	viewer := []rbacv1.PolicyRule{
		{APIGroups: []string{"clusterfx.dev"}, Resources: []string{"clusters"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	}
	addContext(t, all, "hub-nobody", user(t, hub, fleet.User{Name: "nobody"}))
	addContext(t, all, "hub-viewer", user(t, hub, fleet.User{Name: "viewer", Rules: viewer}))
	addContext(t, all, "edge-nobody", user(t, edge, fleet.User{Name: "nobody"}))
	all.CurrentContext = "hub"
	var err error
	p.kubeconfig, err = clientcmd.Write(*all)
	must(t, err)
	return p
}

func user(t *testing.T, c *fleet.Cluster, u fleet.User) []byte {
	t.Helper()
	credential, err := c.MintCertificate(t.Context(), u)
	must(t, err)
	return credential.Kubeconfig()
}

func addContext(t *testing.T, all *clientcmdapi.Config, name string, kubeconfig []byte) {
	t.Helper()
	one, err := clientcmd.Load(kubeconfig)
	must(t, err)
	current := one.Contexts[one.CurrentContext]
	all.Clusters[name], all.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
	all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
}

// programs returns a folder with links to the programs that scripts call.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	kubectl, err := fleet.Binary("kubectl")
	must(t, err)
	must(t, errors.Join(
		os.Symlink(self, filepath.Join(dir, "hub")),
		os.Symlink(self, filepath.Join(dir, "kubectl-clusterfx")),
		os.Symlink(kubectl, filepath.Join(dir, "kubectl")),
	))
	return dir
}

func (p *playground) setup(env *testscript.Env) error {
	env.Defer(func() { p.clean(p.life) })
	env.Setenv("PATH", p.programs+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "kubeconfig"))
	env.Setenv("KUBECACHEDIR", filepath.Join(env.WorkDir, "cache"))
	env.Setenv(asHub, asStock)
	env.Setenv("GORACE", os.Getenv("GORACE"))
	return os.WriteFile(filepath.Join(env.WorkDir, "kubeconfig"), p.kubeconfig, 0o600)
}

// clean removes the objects that a failed script has left, so that the next script does not see them.
func (p *playground) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience())
	defer cancel()
	_ = p.hub.DeleteAllOf(ctx, &hubv1.Cluster{})
	for left := (hubv1.ClusterList{}); ctx.Err() == nil; pause(100 * time.Millisecond) {
		if err := p.hub.List(ctx, &left); err == nil && len(left.Items) == 0 {
			break
		}
	}
	ours := client.MatchingLabels{"app.kubernetes.io/managed-by": "clusterfx"}
	_ = p.hub.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(hubv1.DefaultNamespace), ours)
	for _, remote := range p.remotes {
		for _, one := range []client.Object{&corev1.Secret{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
			_ = remote.DeleteAllOf(ctx, one, client.InNamespace(metav1.NamespaceSystem), ours)
		}
		_ = remote.DeleteAllOf(ctx, &rbacv1.ClusterRole{}, ours)
		_ = remote.DeleteAllOf(ctx, &rbacv1.ClusterRoleBinding{}, ours)
	}
}

// eventuallyPrints is the command "eventually PATTERN PROGRAM ARGS...": it runs the program until its output matches.
func eventuallyPrints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM ARGS...")
	}
	pattern := regexp.MustCompile("(?s)" + args[0])
	for deadline := time.Now().Add(patience()); ; {
		out, err := command(ts, args[1:]).CombinedOutput()
		if pattern.Match(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not print %q, but %q (%v)", strings.Join(args[1:], " "), args[0], out, err)
		}
		pause(100 * time.Millisecond)
	}
}

func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	cmd := command(ts, args[1:])
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		ts.Check(err)
	}
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("%s exits with %s, want %s:\n%s", strings.Join(args[1:], " "), got, args[0], out)
	}
	ts.Check(os.WriteFile(ts.MkAbs("output"), out, 0o600))
}

// printObjectsOf is the command "objects CONTEXT FILE": it writes the objects of a cluster to a file, for the kinds
// that registration uses.
func printObjectsOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: objects CONTEXT FILE")
	}
	kinds := "serviceaccounts,secrets,clusterroles,clusterrolebindings,roles,rolebindings,namespaces"
	if args[0] == "hub" {
		kinds += ",clusters.clusterfx.dev"
	}
	out, err := command(ts, []string{
		"kubectl", "--context", args[0], "get", kinds, "-A", "--no-headers",
		"-o", "custom-columns=KIND:.kind,NS:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid",
	}).Output()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o600))
}

func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(strings.SplitN(ts.Getenv("PATH"), string(os.PathListSeparator), 2)[0], args[0]), args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "KUBECONFIG", "KUBECACHEDIR", "GORACE", asHub} {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s", name, ts.Getenv(name)))
	}
	return cmd
}

func crowd(ctx context.Context, hub client.Client, clusters int) error {
	creating, ctx := errgroup.WithContext(ctx)
	creating.SetLimit(16)
	for i := range clusters {
		creating.Go(func() error {
			name := fmt.Sprintf("cluster-%03d", i)
			return hub.Create(ctx, &hubv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
			})
		})
	}
	return creating.Wait()
}
