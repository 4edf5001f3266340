// SPDX-License-Identifier: Apache-2.0

package enroll_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m))
}

// clusters are a running hub and a remote.
type clusters struct {
	hub, remote *fleet.Cluster
	admin       map[string]*access.Cluster // of both, by name
	entry       *clientcmdapi.Cluster      // of the remote
}

func loopback() netip.Prefix { return netip.MustParsePrefix("127.0.0.0/8") }

// newClusters starts a hub that has no remotes yet and may connect to these special addresses. It is stopped when the test ends.
func newClusters(t *testing.T, allowed ...netip.Prefix) *clusters {
	t.Helper()
	s := &clusters{hub: fleettest.Borrow(t, pool.Hub), remote: fleettest.Borrow(t, pool.Remote), admin: map[string]*access.Cluster{}}
	for name, c := range map[string]*fleet.Cluster{"hub": s.hub, "remote": s.remote} {
		admin, err := access.New(name, c.Config())
		must(t, err)
		s.admin[name] = admin
	}
	raw, err := clientcmd.Load(s.remote.Kubeconfig())
	must(t, err)
	s.entry = raw.Clusters[raw.Contexts[raw.CurrentContext].Cluster]
	o := app.Options{Config: s.hub.Config(), Modules: modules.All(), Alone: true}
	o.Registry.Policy.AllowCIDRs = allowed
	testkit.Background(t, func(ctx context.Context) error { return app.Run(ctx, o) })
	return s
}

var must = testkit.Must

// place returns the place of a command whose requests go through a cut.
func (s *clusters) place(t *testing.T, c *cut) enroll.Place {
	t.Helper()
	clients := map[string]*access.Cluster{}
	for name, one := range map[string]*fleet.Cluster{"hub": s.hub, "remote": s.remote} {
		config := one.Config()
		config.Wrap(c.wrap)
		var err error
		clients[name], err = access.New(name, config)
		must(t, err)
	}
	return enroll.Place{
		Terminal: output.NewTerminal(strings.NewReader(""), io.Discard, io.Discard), Hub: clients["hub"], Remote: clients["remote"],
		Namespace: hubv1.DefaultNamespace, Name: "edge", Yes: true, Timeout: 30 * time.Second,
	}
}

// command is the part of a command that runs after it has read its flags.
type command interface {
	Prepare(ctx context.Context) error
	RequireRights(ctx context.Context) error
	Run(ctx context.Context) error
}

func run(ctx context.Context, c command) error {
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if err := c.RequireRights(ctx); err != nil {
		return err
	}
	return c.Run(ctx)
}

func (s *clusters) register(t *testing.T, c *cut) command {
	t.Helper()
	return &enroll.Registration{
		Place: s.place(t, c), Entry: s.entry, Token: enroll.Requested, Lifetime: time.Hour,
		Account: enroll.Account{Namespace: metav1.NamespaceSystem, Rules: rbac.RemoteRules(modules.All()...)},
	}
}

func (s *clusters) rotate(t *testing.T, c *cut) command {
	t.Helper()
	return &enroll.Rotation{Place: s.place(t, c), Lifetime: time.Hour}
}

func (s *clusters) deregister(t *testing.T, c *cut) command {
	t.Helper()
	return &enroll.Deregistration{Place: s.place(t, c)}
}

// contents returns the names and UIDs of the objects in both clusters of the kinds that registration uses.
func (s *clusters) contents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"hub", "remote"} {
		lists := []client.ObjectList{
			&corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
			&rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		}
		if name == "hub" {
			lists = append(lists, &hubv1.ClusterList{})
		}
		for _, list := range lists {
			must(t, s.admin[name].List(t.Context(), list))
			must(t, eachItem(list, func(o client.Object) {
				all = append(all, fmt.Sprintf("%s %T %s/%s %s", name, o, o.GetNamespace(), o.GetName(), o.GetUID()))
			}))
		}
	}
	return all
}

// tokens returns the names of the Secrets that keep tokens of the hub alive in the remote.
func (s *clusters) tokens(t *testing.T) []string {
	t.Helper()
	var all corev1.SecretList
	must(t, s.admin["remote"].List(t.Context(), &all, client.MatchingLabels{"app.kubernetes.io/managed-by": "clusterfx"}))
	var names []string
	for _, one := range all.Items {
		names = append(names, one.Name)
	}
	return names
}

var errUnexpected = errors.New("not an object")
