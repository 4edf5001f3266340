// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
}

// recovers fails in its first try in each remote.
func recovers() registry.Module {
	var tried sync.Map
	return module("recovers", func(_ context.Context, p registry.Remote) error {
		if _, again := tried.LoadOrStore(p.Name, true); !again {
			return errOnPurpose
		}
		return nil
	})
}

var errOnPurpose = errors.New("on purpose")

// misbehaving are modules that each do one thing that a rehearsal must tell.
func misbehaving(ended <-chan struct{}) []registry.Module {
	const owner = client.FieldOwner("v2")
	return []registry.Module{
		deletesMany(),
		module("leaks", func(context.Context, registry.Remote) error {
			go func() { <-ended }()
			return nil
		}),
		module("differs", func(ctx context.Context, p registry.Remote) error {
			if p.Name != "oslo" {
				return nil
			}
			if err := p.HubClient.Create(ctx, configMap("in-hub", nil)); err != nil {
				return err
			}
			return p.Client.Apply(ctx, corev1ac.ConfigMap("settings", "default").WithData(map[string]string{"size": "2"}), owner, client.ForceOwnership)
		}),
		module("same", func(ctx context.Context, p registry.Remote) error {
			return p.Client.Patch(ctx, configMap("settings", nil), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"kept":"yes"}}`)))
		}),
		module("secretive", func(ctx context.Context, p registry.Remote) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hidden"}}
			return p.Client.Patch(ctx, secret, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"word":"c2VzYW1l"}}`)))
		}),
		module("random", func(ctx context.Context, p registry.Remote) error {
			for range 8 {
				patch := fmt.Appendf(nil, `{"data":{"value":%q}}`, rand.Text())
				if err := p.Client.Patch(ctx, configMap("settings", nil), client.RawPatch("application/merge-patch+json", patch)); err != nil {
					return err
				}
			}
			return nil
		}),
		module("chain", func(ctx context.Context, p registry.Remote) error {
			err := p.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
			inside := configMap("inside", nil)
			inside.Namespace = "new"
			if err == nil {
				_ = p.Client.Create(ctx, inside) // It is refused, since the namespace is not there.
			}
			return err
		}),
		module("panics", func(_ context.Context, p registry.Remote) error {
			if p.Name == "rome" {
				panic("on purpose")
			}
			return nil
		}),
		module("fails", func(context.Context, registry.Remote) error { return errOnPurpose }),
		recovers(),
		module("raw", raw),
	}
}

// many is above the limit of deletes.
const many = 300

// deletesMany may delete 100 objects in a remote.
func deletesMany() registry.Module {
	return registry.NewModule("deletes", registry.ModuleOptions{Deletes: deletes.Limits{PerTarget: 100, PerFleet: 1000}, Remote: reconciles("deletes",
		func(ctx context.Context, p registry.Remote) error {
			if p.Name != "oslo" {
				return nil
			}
			for i := range many {
				if err := p.Client.Delete(ctx, configMap(fmt.Sprintf("many-%d", i), nil)); err != nil {
					return err
				}
			}
			return p.Client.DeleteAllOf(ctx, &corev1.ServiceAccount{}, client.InNamespace("default"), client.MatchingLabels{"all": "of-us"})
		})})
}

// raw makes its own client, and asks for what no dry run shows.
func raw(ctx context.Context, p registry.Remote) error {
	c, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		return err
	}
	core := c.CoreV1()
	_ = core.Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	_ = core.Pods("default").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
	_ = core.ConfigMaps("default").Delete(ctx, "many-1", metav1.DeleteOptions{})
	_, _ = core.ServiceAccounts("default").CreateToken(ctx, "default", nil, metav1.CreateOptions{})
	_ = core.RESTClient().Post().AbsPath("/api/v1/namespaces/default/pods/web/exec").Do(ctx).Error()
	_ = core.RESTClient().Get().AbsPath("/api/v1/nodes/n1/proxy/run").Do(ctx).Error()
	pod, err := core.Pods("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Status.Message = "changed"
	_, err = core.Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// rawRules are the permissions of raw.
func rawRules() []rbacv1.PolicyRule {
	core := []string{""}
	return []rbacv1.PolicyRule{
		{APIGroups: core, Resources: []string{"configmaps"}, Verbs: []string{"delete"}},
		{APIGroups: core, Resources: []string{"pods/eviction", "pods/binding"}, Verbs: []string{"create"}},
		{APIGroups: core, Resources: []string{"pods/status"}, Verbs: []string{"update"}},
	}
}

func (a *audited) fill(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		objects := []client.Object{
			configMap("settings", map[string]string{"size": "1", "kept": "yes"}),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hidden"}, Data: map[string][]byte{"word": []byte("old")}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"all": "of-us"}}},
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		}
		labels, one := map[string]string{"app": "web"}, int32(1)
		objects = append(objects, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
				},
			},
		})
		for i := range many {
			objects = append(objects, configMap(fmt.Sprintf("many-%d", i), nil))
		}
		for _, o := range objects {
			must(t, a.client[name].Create(t.Context(), o))
		}
	}
}

// Promise: a rehearsal says of each misbehaving module what is wrong, in the clusters where it is, and writes nothing.
func TestRun_Misbehaving(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/rehearse TestDocs_Rehearsal")
	t.Parallel()
	a := newAudited(t, "oslo", "rome")
	a.fill(t, "oslo", "rome")
	ended := make(chan struct{})
	defer close(ended)
	o := options(a.hub.Config(), misbehaving(ended)...)
	o.For = 40 * time.Second
	report := run(t, o)
	a.expectNoWrite(t)
	testkit.Equal(t, report.Verdict(), rehearse.Differs, "verdict")
	testkit.Equal(t, changes(report, "differs"), []string{
		"oslo: create configmaps default/in-hub", "oslo: change configmaps default/settings data.size=\"1\"->\"2\"",
	}, "a deliberate difference")
	testkit.Equal(t, changes(report, "same"), nil, "what is there already")
	testkit.Equal(t, changes(report, "secretive")[0], "oslo: change secrets default/hidden data.word=(secret)->(another value)", "a Secret")
	gone := changes(report, "deletes")
	if len(gone) != many+1 || !slices.Contains(gone, "oslo: delete configmaps default/many-7 (would be held after 100)") {
		t.Errorf("deletes: got %d: %s", len(gone), strings.Join(gone[:min(len(gone), 20)], "\n"))
	}
	for class, module := range map[rehearse.Class]string{
		rehearse.NeverTheSame: "random", rehearse.StopsHere: "chain", rehearse.Panics: "panics", rehearse.Refused: "raw", rehearse.Errors: "fails",
	} {
		if found(report, class, module, "rome").Detail == "" {
			t.Errorf("module %s in rome: there is no finding %s", module, class)
		}
	}
	if found(report, rehearse.Leaks, "", "rome").Detail == "" {
		t.Error("there is no finding of a leak")
	}
	testkit.Equal(t, found(report, rehearse.Errors, "recovers", "oslo"), rehearse.Finding{}, "what failed once")
	if strings.Contains(printed(t, report), "c2VzYW1l") || strings.Contains(printed(t, report), "sesame") {
		t.Error("the report has the value of a Secret")
	}
}
