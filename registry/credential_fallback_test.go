// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func bearing(token string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+token }
}

// expectInUse waits until a remote is Ready with a credential and with this condition of the wanted credential.
func expectInUse(t *testing.T, r *registry.Registry, name registry.ClusterName, credential string, wanted state.Condition) registry.Status {
	t.Helper()
	var last registry.Status
	eventually(t, func() error {
		last, _ = r.Status(name)
		found := state.Condition{Status: last.NewCredential.Status, Reason: last.NewCredential.Reason}
		if last.State != state.StateReady || last.CredentialName != credential || found != wanted {
			return fmt.Errorf("got %s/%s with credential %q, condition of the wanted credential: %+v", last.State, last.Reason, last.CredentialName, last.NewCredential)
		}
		return nil
	})
	err := r.WithClient(t.Context(), name, func(context.Context, client.Client) error { return nil })
	if err != nil {
		t.Errorf("lease: %v", err)
	}
	return last
}

var notInUse = state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonNotInUse}

// When a remote becomes reachable again, the newest credential is tried first, and the last good one if that is refused.
func TestRegistry_CredentialThatChangesWhileTheRemoteIsAway(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	minted, err := one.MintToken(t.Context(), fleet.User{Name: "away", Rules: everything})
	must(t, err)
	for name, c := range map[string]struct {
		next *clientcmdapi.AuthInfo
		used string
		says state.Condition
	}{
		"refused":  {&clientcmdapi.AuthInfo{Token: "wrong"}, "good", notInUse},
		"accepted": {&clientcmdapi.AuthInfo{Token: minted.Config().BearerToken}, "next", state.Condition{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := fleettest.ProxyTo(t, one)
			r := newRegistry(t, nil)
			remote := registry.ClusterName("away-" + name)
			pace := state.Probe{Period: time.Second}
			good := configFor(t, through)
			good.CredentialName, good.Probe = "good", pace
			spawn(t, r, remote, good)
			must(t, proxy.Set(network.Refuse()))
			expectState(t, r, remote, state.StateUnreachable, "Unreachable")
			next := as(t, through, c.next)
			next.CredentialName, next.Probe = "next", pace
			must(t, r.Ensure(remote, next))
			expectStatus(t, r, remote, func(info registry.Status) bool { return info.CredentialName == "next" })
			must(t, proxy.Set(network.Pass()))
			expectInUse(t, r, remote, c.used, c.says)
		})
	}
}

// A credential that leads to another cluster behind the same address is refused, and the app continues with the known
// cluster until the other cluster is accepted.
func TestRegistry_CredentialOfAnotherCluster(t *testing.T) {
	t.Parallel()
	f, good := newFront(t, fleettest.Cluster(t, "one"))
	other, _ := newFront(t, fleettest.Cluster(t, "two"))
	var accepted atomic.Bool
	f.set(bearing("another"), func(w http.ResponseWriter, r *http.Request) {
		if !accepted.Load() && (isWatch(r) || r.Method != http.MethodGet && r.Method != http.MethodPost) {
			t.Errorf("the other cluster gets %s %s before it is accepted", r.Method, r.URL.Path)
		}
		other.honest.ServeHTTP(w, r)
	})
	r := newRegistry(t, nil)
	good.CredentialName = "good"
	spawn(t, r, "led-astray", good)
	before, _ := r.Status("led-astray")

	next := good
	next.Credential = as(t, fleettest.Cluster(t, "one").Kubeconfig(), &clientcmdapi.AuthInfo{Token: "another"}).Credential
	next.CredentialName, next.Identity.Known = "another", before.ID
	must(t, r.Ensure("led-astray", next))
	info := expectInUse(t, r, "led-astray", "good", notInUse)
	if info.Epoch != before.Epoch || info.ID != before.ID {
		t.Errorf("got epoch %d of cluster %s, want %d of %s", info.Epoch, info.ID, before.Epoch, before.ID)
	}
	id := namespaceUID(t, fleettest.Cluster(t, "two"))
	if !strings.Contains(info.NewCredential.Message, id) {
		t.Errorf("got message %s, want the ID of the other cluster in it", info.NewCredential.Message)
	}

	accepted.Store(true)
	next.Identity.Accepted = id
	must(t, r.Ensure("led-astray", next))
	if info := expectInUse(t, r, "led-astray", "another", state.Condition{}); info.ID != id || info.Epoch == before.Epoch {
		t.Errorf("got epoch %d of cluster %s, want an epoch after %d, of cluster %s", info.Epoch, info.ID, before.Epoch, id)
	}
}
