// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/command"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/internal/tunnel"
)

// freeAddress is one that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

// kubelet runs the agent of a remote's Deployment as a Pod would: with its arguments, and with the key of its Secret in a file,
// which follows the Secret.
type kubelet struct {
	t      *testing.T
	remote client.Client
	ctx    context.Context //nolint:containedctx // of the agent
	work   sync.WaitGroup
	file   string
}

func newKubelet(t *testing.T, remote *fleet.Cluster) *kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	k := &kubelet{t: t, remote: clientFor(t, remote), ctx: ctx, file: filepath.Join(t.TempDir(), "key.pem")}
	t.Cleanup(func() {
		cancel()
		k.work.Wait()
	})
	k.work.Go(func() {
		for !k.start() && ctx.Err() == nil {
		}
		for ctx.Err() == nil {
			_ = k.bringKey()
		}
	})
	return k
}

func (k *kubelet) bringKey() error {
	var secret corev1.Secret
	err := k.remote.Get(k.ctx, client.ObjectKey{Namespace: "clusterfx-agent", Name: "clusterfx-agent-key"}, &secret)
	if err != nil {
		return err
	}
	if now, _ := os.ReadFile(k.file); bytes.Equal(now, secret.Data["key.pem"]) {
		return nil
	}
	if err := os.WriteFile(k.file+".new", secret.Data["key.pem"], 0o600); err != nil {
		return err
	}
	return os.Rename(k.file+".new", k.file)
}

func (k *kubelet) start() bool {
	var deployment appsv1.Deployment
	err := k.remote.Get(k.ctx, client.ObjectKey{Namespace: "clusterfx-agent", Name: "clusterfx-agent"}, &deployment)
	if err != nil || k.bringKey() != nil {
		return false
	}
	args := []string{"hub"}
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--key-file=") {
			arg = "--key-file=" + k.file
		}
		args = append(args, arg)
	}
	k.work.Go(func() {
		command.Execute(k.ctx, command.Program{Args: args, Stdout: io.Discard, Stderr: io.Discard})
	})
	return true
}

// Promise: hub register --tunnel registers a remote that the hub cannot reach, hub rotate gives its agent another key without a
// gap, and hub deregister leaves nothing there.
func TestRegister_Tunnel(t *testing.T) {
	t.Parallel()
	h, remote := newHub(t), fleettest.Borrow(t, pool.Remote)
	o := h.options()
	o.TunnelAddress = freeAddress(t)
	h.run(o)
	k := newKubelet(t, remote)
	ofRemote := "--cluster-kubeconfig=" + kubeconfigOf(t, remote)
	run := func(args ...string) string {
		t.Helper()
		code, out, problems := h.execute(nil, append(args, ofRemote)...)
		if code != 0 {
			t.Fatalf("%q: %s", args, problems)
		}
		return out + problems
	}
	register := []string{"register", "edge", "--tunnel", "ws://" + o.TunnelAddress, "--cluster-server", remote.Server(), "--yes"}
	if text := run(append(register, "--dry-run", "-o", "yaml")...); !strings.Contains(text, "via: Tunnel") || !strings.Contains(text, "kind: NetworkPolicy") {
		t.Errorf("a dry run has printed %s", text)
	}
	t.Log(run(register...))
	h.expectReady("edge", metav1.ConditionTrue)
	before := h.tunnelOf("edge")
	if before.KeyFingerprint == "" || before.Replica == "" {
		t.Fatalf("got status %+v", before)
	}
	h.expectUnreachedByHand()
	run(register...) // again
	t.Log(run("rotate", "edge"))
	if after := h.tunnelOf("edge"); after.KeyFingerprint == before.KeyFingerprint {
		t.Error("the agent has the same key")
	}
	if keys := strings.Fields(h.secretOf("edge").Annotations[hubv1.AnnotationTunnelKeys]); len(keys) != 2 || keys[1] == before.KeyFingerprint {
		t.Errorf("the hub accepts %q", keys)
	}
	t.Log(run("deregister", "edge", "--yes"))
	var left corev1.Namespace
	err := k.remote.Get(t.Context(), client.ObjectKey{Name: "clusterfx-agent"}, &left)
	if !apierrors.IsNotFound(err) && left.DeletionTimestamp.IsZero() {
		t.Errorf("the namespace of the agent is left: %v", err)
	}
}

// expectUnreachedByHand: commands that connect to remotes say that they cannot, and do the rest.
func (h *hub) expectUnreachedByHand() {
	h.t.Helper()
	code, out, problems := h.execute(nil, "check", "edge")
	for _, part := range []string{"they end at", "only the hub can, through the tunnel", "is connected to", "ok authentication"} {
		if code != 0 || !strings.Contains(out, part) {
			h.t.Errorf("check has no %q, exits with %d, and prints %s%s", part, code, out, problems)
		}
	}
	rule := testkit.File(h.t, "rule.yaml", []byte(`apiVersion: clusterfx.dev/v1alpha1
kind: SyncRule
metadata: {name: settings}
spec:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap, resource: configmaps}
  namespaces: {names: [platform]}
  to: {naming: Mirror, namespace: platform}
`))
	code, _, problems = h.execute(nil, "sync", "diff", "settings", "--rules", rule)
	if code == 0 || !strings.Contains(problems, "only the hub reaches the remote of Cluster edge") {
		h.t.Errorf("sync diff exits with %d, and prints %s", code, problems)
	}
}

func (h *hub) tunnelOf(name string) hubv1.TunnelStatus {
	h.t.Helper()
	var c hubv1.Cluster
	h.must(h.Get(h.t.Context(), client.ObjectKey{Name: name}, &c))
	return c.Status.Tunnel
}

func (h *hub) secretOf(name string) *corev1.Secret {
	h.t.Helper()
	secret := &corev1.Secret{}
	h.must(h.Get(h.t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: name}, secret))
	return secret
}

// Promise: two people register a remote: one applies a manifest there, the other accepts the fingerprint of the agent. Until then the
// Cluster waits, and a key that another Cluster has is refused.
func TestRegister_ExportAndAccept(t *testing.T) {
	t.Parallel()
	h, remote := newHub(t), fleettest.Borrow(t, pool.Remote)
	o := h.options()
	o.TunnelAddress = freeAddress(t)
	h.run(o)
	code, manifest, problems := h.execute(nil, "register", "edge", "--tunnel", "ws://"+o.TunnelAddress, "--cluster-server", remote.Server(), "--export")
	if code != 0 {
		t.Fatal(problems)
	}
	inRemote := clientFor(t, remote)
	token := applyAsAdministrator(t, inRemote, remote, manifest)
	// The Job makes the key.
	key, err := tunnel.NewKey()
	must(t, err)
	must(t, inRemote.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusterfx-agent", Name: "clusterfx-agent-key"}, Data: map[string][]byte{"key.pem": key.PEM()},
	}))
	newKubelet(t, remote)
	h.expectReady("edge", metav1.ConditionFalse)

	file := filepath.Join(t.TempDir(), "token.yaml")
	must(t, os.WriteFile(file, token, 0o600))
	accept := func(name string, args ...string) (int, string) {
		code, _, problems := h.execute(nil, append([]string{"accept", name}, args...)...)
		return code, problems
	}
	if code, problems := accept("edge", "sha256:1"); code == 0 || !strings.Contains(problems, "is not a fingerprint") {
		t.Errorf("got %d, %s", code, problems)
	}
	if code, problems := accept("edge", key.Fingerprint(), "--token-file", file); code != 0 {
		t.Fatal(problems)
	}
	h.expectReady("edge", metav1.ConditionTrue)

	if code, _, problems := h.execute(nil, "register", "other", "--tunnel", "ws://"+o.TunnelAddress, "--export"); code != 0 {
		t.Fatal(problems)
	}
	if code, problems := accept("other", key.Fingerprint()); code == 0 || !strings.Contains(problems, "accepted by Secret edge, too") {
		t.Errorf("got %d, %s", code, problems)
	}
	// Somebody writes it nevertheless.
	stolen := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hubv1.DefaultNamespace, Name: "stolen",
			Annotations: map[string]string{hubv1.AnnotationTunnelKeys: "other/1 " + key.Fingerprint()},
		},
	}
	h.must(h.Create(t.Context(), stolen))
	h.expectCondition("edge", hubv1.ReasonTunnelDown, "accepted for two Clusters")
	h.must(h.Delete(t.Context(), stolen))
	h.expectReady("edge", metav1.ConditionTrue)
}

func (h *hub) expectCondition(name, reason, part string) {
	h.t.Helper()
	eventually(h.t, func() error {
		var c hubv1.Cluster
		h.must(h.Get(h.t.Context(), client.ObjectKey{Name: name}, &c))
		for _, one := range c.Status.Conditions {
			if one.Type == hubv1.ConditionReachable && one.Reason == reason && strings.Contains(one.Message, part) {
				return nil
			}
		}
		return errors.New("it has not the condition")
	})
}

// applyAsAdministrator applies a manifest as kubectl does, and returns the Secret with the token. The test fills it in place of the
// controller manager, which these servers do not have.
func applyAsAdministrator(t *testing.T, c client.Client, remote *fleet.Cluster, manifest string) (token []byte) {
	t.Helper()
	decoder := utilyaml.NewYAMLToJSONDecoder(strings.NewReader(manifest))
	account := ""
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if len(object.Object) == 0 {
			continue // comments
		}
		if object.GetKind() == "Secret" {
			account = object.GetName()
			token, err = yaml.Marshal(object)
			must(t, err)
			continue // It needs the ServiceAccount's controller.
		}
		must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), object)))
	}
	if account == "" {
		t.Fatalf("the manifest has no Secret for the token:\n%s", manifest)
	}
	minted, err := remote.MintToken(t.Context(), fleet.User{Name: "exported", Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"},
	}}})
	must(t, err)
	var secret corev1.Secret
	must(t, yaml.Unmarshal(token, &secret))
	secret.Data = map[string][]byte{"token": []byte(minted.Config().BearerToken), "ca.crt": minted.Config().CAData}
	token, err = yaml.Marshal(secret)
	must(t, err)
	return token
}

// Promise: an agent may connect to any replica, through which it reaches the active one. A replica that takes over has it, too.
func TestRun_TunnelOfAnotherReplica(t *testing.T) {
	t.Parallel()
	h, remote := newHub(t), fleettest.Borrow(t, pool.Remote)
	first := withReplicas(h.options(), "first")
	first.TunnelAddress = freeAddress(t)
	active := h.run(first)
	h.expectHolders("first")
	second := withReplicas(h.options(), "second")
	second.TunnelAddress = freeAddress(t)
	h.run(second)
	newKubelet(t, remote)
	code, _, problems := h.execute(nil, "register", "edge", "--tunnel", "ws://"+second.TunnelAddress, "--cluster-server", remote.Server(), "--yes",
		"--cluster-kubeconfig="+kubeconfigOf(t, remote))
	if code != 0 {
		t.Fatal(problems)
	}
	expect := func(replica string) {
		t.Helper()
		took := eventually(t, func() error {
			var c hubv1.Cluster
			h.must(h.Get(t.Context(), client.ObjectKey{Name: "edge"}, &c))
			if c.Status.Runner.Name != replica || c.Status.Tunnel.Replica != replica || !meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady) {
				return fmt.Errorf("it is run by %q, with the agent at %q", c.Status.Runner.Name, c.Status.Tunnel.Replica)
			}
			return nil
		})
		t.Logf("%s serves the Cluster after %s", replica, took)
	}
	expect("first")
	h.must(active.stop())
	expect("second")
}
