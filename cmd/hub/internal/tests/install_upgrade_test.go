// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// before has the manifests of an earlier version, as kubectl kustomize config/default built them. A version that
// changes the CRD or the permissions adds its own manifests next to it.
const before = "testdata/install-before-controllers.yaml"

// readyOnes are the Clusters of the test that are Ready.
var readyOnes = []string{"from-a-secret", "of-its-own"}

// A hub of this version works with the manifests of an earlier version, but reports no controllers; it reports them
// after the new manifests are applied. Every Cluster that is Ready before stays Ready or becomes Unknown for a moment, is
// never False, and works in the end. No object is lost or recreated, and the stored objects are valid.
func TestUpgrade(t *testing.T) {
	upgraded, err := fleettest.New(t, fleet.Options{Audit: true}).Create(t.Context(), "upgraded")
	must(t, err)
	config := upgraded.Config()
	admin := clientFor(t, config)
	text, err := os.ReadFile(before)
	must(t, err)
	old := parse(t, string(text))
	must(t, install.Apply(t.Context(), admin, old, install.ApplyOptions{}))
	eventually(t, func() error { return admin.List(t.Context(), &hubv1.ClusterList{}) })
	stop := startHub(t, podsConfig(t, admin, config))
	register(t, admin, readyOnes[0], fleettest.Cluster(t, "remote").Kubeconfig())
	registerInFull(t, admin, readyOnes[1], fleettest.Cluster(t, "remote-too").Kubeconfig())
	for _, name := range readyOnes {
		awaitWork(t, admin, name)
	}
	expectControllers(t, admin, "")
	was := inventory(t, admin, old)
	begin := time.Now()

	stop()
	must(t, install.Apply(t.Context(), admin, objects(t, install.Options{}), install.ApplyOptions{}))
	startHub(t, podsConfig(t, admin, config))
	eventually(t, func() error { return nameControllers(t.Context(), admin) })
	expectControllers(t, admin, "inventory")
	for _, name := range readyOnes {
		awaitWork(t, admin, name)
	}
	now := inventory(t, admin, old)
	for key := range now {
		if _, known := was[key]; !known {
			delete(now, key) // New objects are allowed.
		}
	}
	if diff := gocmp.Diff(was, now); diff != "" {
		t.Errorf("the upgrade loses or recreates objects: %s", diff)
	}
	expectNeverFalse(t, upgraded, begin)
	expectValid(t, admin)
}

// registerInFull creates a Cluster and a paused Cluster, which together have every field of the earlier manifests. The
// Cluster has no other way to find its context: the kubeconfig has no current context.
func registerInFull(t *testing.T, c client.Client, name string, kubeconfig []byte) {
	t.Helper()
	raw, err := clientcmd.Load(kubeconfig)
	must(t, err)
	usedContext := raw.CurrentContext
	raw.CurrentContext = ""
	kubeconfig, err = clientcmd.Write(*raw)
	must(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace},
		Data:       map[string][]byte{"access": kubeconfig},
	}
	spec := hubv1.ClusterSpec{
		KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name, Key: "access", Context: usedContext},
		State:               hubv1.ClusterActive,
		Probe:               hubv1.ProbeSpec{PeriodSeconds: 2, TimeoutSeconds: 2, FailureThreshold: 2, SuccessThreshold: 1},
		Client:              hubv1.ClientSpec{QPS: 20, Burst: 40, TimeoutSeconds: 5},
		Modules:             []string{"inventory"},
	}
	paused := spec
	paused.State, paused.Server, paused.TLSServerName = hubv1.ClusterPaused, "https://10.4.0.11:6443", "kubernetes"
	paused.ProxyURL, paused.Namespaces = "socks5://proxy.example.com", []string{"team-a"}
	must(t, errors.Join(
		c.Create(t.Context(), secret),
		c.Create(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": "eu"}}, Spec: spec}),
		c.Create(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "paused"}, Spec: paused}),
	))
	removeLater(t, c, name)
	removeLater(t, c, "paused")
}

// expectControllers fails the test unless the Clusters of readyOnes name this controller, or no controller if want is
// empty.
func expectControllers(t *testing.T, c client.Client, want string) {
	t.Helper()
	for _, name := range readyOnes {
		var cluster hubv1.Cluster
		must(t, c.Get(t.Context(), client.ObjectKey{Name: name}, &cluster))
		if got := controllersOf(&cluster); got != want {
			t.Errorf("the controllers of %s are %q, want %q", name, got, want)
		}
	}
}

func controllersOf(c *hubv1.Cluster) (names string) {
	for _, m := range c.Status.Modules {
		for _, one := range m.Controllers {
			names += one.Name
		}
	}
	return names
}

// nameControllers returns an error unless all Clusters of readyOnes name their controllers.
func nameControllers(ctx context.Context, c client.Client) error {
	var missing error
	for _, name := range readyOnes {
		var cluster hubv1.Cluster
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
			return err
		}
		if controllersOf(&cluster) == "" {
			missing = fmt.Errorf("%s names no controllers: %+v", name, cluster.Status.Modules)
		}
	}
	return missing
}

// inventory returns the contents of the hub's cluster that must survive: all objects of the old manifests, the Clusters
// with the fields that users write, and the Secrets with the keys of their data.
func inventory(t *testing.T, c client.Client, manifests []*unstructured.Unstructured) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, object := range manifests {
		now := object.DeepCopy()
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), now))
		found[id(now)] = string(now.GetUID())
	}
	var clusters hubv1.ClusterList
	must(t, c.List(t.Context(), &clusters))
	for _, one := range clusters.Items {
		found["Cluster/"+one.Name] = fmt.Sprintf("%s, generation %d, %+v, %v, %v, finalizers %v, id %s", one.UID, one.Generation,
			one.Spec, one.Labels, one.Annotations, one.Finalizers, one.Status.ID)
	}
	var secrets corev1.SecretList
	must(t, c.List(t.Context(), &secrets, client.InNamespace(hubv1.DefaultNamespace)))
	for _, one := range secrets.Items {
		found["Secret/"+one.Name] = fmt.Sprintf("%s %v %d", one.UID, slices.Sorted(maps.Keys(one.Data)), len(one.Data["access"]))
	}
	return found
}

// expectNeverFalse fails the test unless the hubs have written the status of each Cluster of readyOnes since then, always
// with Ready, and never with Ready False. While an app takes longer than a second to start, Ready is Unknown. A watch
// would end with the change of the CRD, and miss what comes next; the audit log has every write.
func expectNeverFalse(t *testing.T, hub *fleet.Cluster, since time.Time) {
	t.Helper()
	for _, name := range readyOnes {
		writes, err := hub.AuditEvents(fleet.Since(since), fleet.AuditEvent.Writes, func(e fleet.AuditEvent) bool {
			return e.Object.Resource == "clusters" && e.Object.Name == name && e.Object.Subresource == "status"
		})
		must(t, err)
		if len(writes) == 0 {
			t.Errorf("the status of %s is not written", name)
		}
		for _, write := range writes {
			var written hubv1.Cluster
			must(t, json.Unmarshal(write.Body, &written))
			ready := meta.FindStatusCondition(written.Status.Conditions, hubv1.ConditionReady)
			if ready == nil || ready.Status == metav1.ConditionFalse {
				t.Errorf("%s writes Ready of %s as %+v", write.UserAgent, name, ready)
			}
		}
	}
}

// expectValid fails the test unless the API server accepts every stored Cluster as a new Cluster, and its status as an
// update.
func expectValid(t *testing.T, c client.Client) {
	t.Helper()
	var all hubv1.ClusterList
	must(t, c.List(t.Context(), &all))
	if len(all.Items) != len(readyOnes)+1 {
		t.Errorf("there are %d Clusters", len(all.Items))
	}
	for _, one := range all.Items {
		anew := &hubv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "copy-of-" + one.Name, Labels: one.Labels, Annotations: one.Annotations},
			Spec:       one.Spec,
		}
		if err := c.Create(t.Context(), anew, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s is not valid as a new Cluster: %v", one.Name, err)
		}
		status := one.DeepCopy()
		status.Status.Server += " " // Without a change the API server checks nothing.
		if err := c.Status().Update(t.Context(), status, client.DryRunAll); err != nil {
			t.Errorf("the status of %s is not valid: %v", one.Name, err)
		}
	}
}
