// SPDX-License-Identifier: Apache-2.0

package natshub_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
)

type thing struct {
	Text string `json:"text"`
}

// reports is a module that makes a ConfigMap in the hub for each thing and remote.
func reports() registry.Module {
	return registry.NewModule("reports", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote, c *natshub.Connection) error {
			things, err := c.Follow("things")
			if err != nil {
				return err
			}
			status, err := c.Status("things")
			if err != nil {
				return err
			}
			_, err = entity.Add(entity.NewStore(things, entity.JSON[thing](nil)), entity.Func[thing](
				func(ctx context.Context, e *entity.Entity[thing], s *entity.Secondaries) (entity.Report, error) {
					err := s.Hub().Apply(ctx, report(e.Key, string(p.Name), e.Value.Text))
					if errors.Is(err, entity.ErrResourceExists) {
						return entity.Report{Reason: "NameTaken"}, nil
					}
					return entity.Report{Ready: err == nil, Reason: "Made"}, err
				}), entity.Options{
				Name: "reports", Marks: entity.Marks{Hub: p.HubID, Kind: "Thing"}, Manager: p.Manager, Cluster: string(p.Name),
				Hub:    &entity.HubOptions{Client: p.HubClient, Objects: p.HubObjects, Owns: []client.Object{&corev1.ConfigMap{}}},
				Status: status,
			})
			return err
		}),
		HubRules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		}},
	})
}

func report(key, cluster, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: key + "-" + cluster}, Data: map[string]string{"text": text},
	}
}

// Secondaries in the hub: each remote has its own, which follow the entity, are repaired, and go with it. An object of another owner is
// not touched.
func TestHubKinds(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "things")
	nats.Bucket(t, js, "things-status")
	hub := hubtest.New(t, hubtest.Modules(natshub.Module, reports()), hubtest.Remotes("paris", "oslo"), hubtest.NATS(server.URL()))
	foreign := report("b", "paris", "of another")
	testkit.Must(t, hub.Client().Create(t.Context(), foreign))
	put := func(key, text string) {
		t.Helper()
		testkit.Must(t, testkit.Err(kv.Put(t.Context(), key, fmt.Appendf(nil, `{"text":%q}`, text))))
	}
	expect := func(key, cluster, text string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			found := report(key, cluster, "")
			err := hub.Client().Get(t.Context(), client.ObjectKeyFromObject(found), found)
			if text == "" {
				if err == nil {
					err = fmt.Errorf("%s exists", found.Name)
				}
				return client.IgnoreNotFound(err)
			}
			if err == nil && found.Data["text"] != text {
				err = fmt.Errorf("%s has %q, want %q", found.Name, found.Data["text"], text)
			}
			return err
		})
	}
	put("a", "1")
	put("b", "1")
	expect("a", "paris", "1")
	expect("a", "oslo", "1")
	expect("b", "oslo", "1")
	put("a", "2")
	expect("a", "paris", "2")
	edited := report("a", "oslo", "edited")
	testkit.Must(t, hub.Client().Patch(t.Context(), edited, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"text":"edited"}}`))))
	expect("a", "oslo", "2")
	testkit.Must(t, hub.Client().Delete(t.Context(), report("a", "oslo", "")))
	expect("a", "oslo", "2")
	testkit.Must(t, kv.Delete(t.Context(), "a"))
	testkit.Must(t, kv.Delete(t.Context(), "b"))
	for _, cluster := range []string{"paris", "oslo"} {
		expect("a", cluster, "")
	}
	expect("b", "oslo", "")
	expect("b", "paris", "of another")
}

// A Cluster that is deregistered while NATS is away loses its parts of the status when NATS is back, and the others keep theirs.
func TestStatus_ClusterIsGone(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv, status := nats.Bucket(t, js, "things"), nats.Bucket(t, js, "things-status")
	hub := hubtest.New(t, hubtest.Modules(natshub.Module, reports()), hubtest.NATS(server.URL()))
	paris := hub.AddRemote("paris")
	hub.AddRemote("oslo")
	expect := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			e, err := status.Get(t.Context(), "a")
			if err != nil {
				return err
			}
			if got := slices.Sorted(maps.Keys(entity.DecodeStatus(e.Value()).Clusters)); !slices.Equal(got, want) {
				return fmt.Errorf("the status has parts of %q, want %q", got, want)
			}
			return nil
		})
	}
	testkit.Must(t, testkit.Err(kv.Put(t.Context(), "a", []byte(`{"text":"1"}`))))
	expect("oslo", "paris")
	server.Kill()
	paris.Deregister()
	server.Restart()
	expect("oslo")
}
