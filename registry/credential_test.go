// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// as returns the configuration of a kubeconfig with another user.
func as(t *testing.T, kubeconf []byte, user *clientcmdapi.AuthInfo) state.Desired {
	t.Helper()
	c, err := clientcmd.Load(kubeconf)
	must(t, err)
	for name := range c.AuthInfos {
		c.AuthInfos[name] = user
	}
	data, err := clientcmd.Write(*c)
	must(t, err)
	return configFor(t, data)
}

func ofNobody(t *testing.T, from time.Time) *clientcmdapi.AuthInfo {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nobody"}, NotBefore: from, NotAfter: from.Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	chain, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return &clientcmdapi.AuthInfo{
		ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain}),
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// A credential that the remote refuses is not used while the previous credential works, and no lease fails.
// Promise: new credentials that a remote refuses do not stop the app.
func TestRegistry_CredentialThatIsRefused(t *testing.T) {
	t.Parallel()
	one := fleettest.Cluster(t, "one")
	for name, user := range map[string]*clientcmdapi.AuthInfo{
		"token":       {Token: "wrong"},
		"certificate": ofNobody(t, time.Now().Add(-time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c counter
			r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module()} })
			good := configFor(t, one.Kubeconfig())
			good.CredentialName = "good"
			remote := registry.ClusterName("refused-" + name)
			spawn(t, r, remote, good)
			before, _ := r.Status(remote)
			stop, failed, calls := make(chan struct{}), make(chan error, 1), atomic.Int64{}
			go func() { failed <- keepCalling(t.Context(), r, remote, stop, &calls) }()
			wrong := as(t, one.Kubeconfig(), user)
			wrong.CredentialName = "wrong"
			must(t, r.Ensure(remote, wrong))
			eventually(t, func() error {
				info, _ := r.Status(remote)
				if info.NewCredential.Status != metav1.ConditionFalse || info.NewCredential.Reason != state.ReasonNotInUse {
					return fmt.Errorf("got new credential %+v, want NotInUse", info.NewCredential)
				}
				if info.State != state.StateReady || info.Epoch != before.Epoch || info.CredentialName != "good" {
					return fmt.Errorf("got %s with epoch %d and credential %s", info.State, info.Epoch, info.CredentialName)
				}
				return nil
			})
			close(stop)
			if err := <-failed; err != nil {
				t.Error(err)
			}
			t.Logf("0 of %d calls failed", calls.Load())

			wrong.AcceptCredential = true
			must(t, r.Ensure(remote, wrong))
			expectStatus(t, r, remote, func(info registry.Status) bool {
				return info.CredentialName == "wrong" && info.State != state.StateReady
			})
			must(t, r.Ensure(remote, good))
			expectState(t, r, remote, state.StateReady, state.ReasonReady)
		})
	}
}

// When a credential with fewer permissions is in use, the modules that lack a permission have ended, the status reports
// the missing permissions, and the other modules run.
func TestRegistry_CredentialWithFewerPermissions(t *testing.T) {
	t.Parallel()
	var c counter
	var ended atomic.Bool
	greedy := registry.NewModule("greedy", registry.ModuleOptions{Rules: everything, Remote: fx.Invoke(func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			ended.Store(true)
			return nil
		}))
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module(), greedy} })
	one, config := remote(t, "one")
	spawn(t, r, "narrowed", config)
	expectModule(t, r, "narrowed", "greedy", state.ModuleRunning, state.ReasonRunning)
	less := append(everything[:0:0], everything[1])
	less = append(less, everything[0])
	less[1].Resources, less[1].APIGroups = []string{"configmaps", "namespaces"}, []string{""}
	minted, err := one.MintToken(t.Context(), fleet.User{Name: "narrowed", Rules: less})
	must(t, err)
	next := configFor(t, minted.Kubeconfig())
	next.CredentialName = "less"
	must(t, r.Ensure("narrowed", next))
	eventually(t, func() error {
		info, _ := r.Status("narrowed")
		if info.CredentialName == "less" && info.Authorized.Reason != state.ReasonRightsMissing {
			t.Errorf("the credential is in use, got Authorized %+v, want reason RightsMissing", info.Authorized)
		}
		if info.CredentialName == "less" && !ended.Load() {
			t.Error("the credential is in use, and the module that lacks permissions has not ended")
		}
		if info.State != state.StateReady || info.CredentialName != "less" {
			return errors.New(string(info.State) + " with " + info.CredentialName)
		}
		return nil
	})
	expectModule(t, r, "narrowed", "greedy", state.ModuleWaiting, state.ReasonRightsMissing)
	expectSeenBy(t, one, newConfigMap(t, one), "narrowed")
}

// A credential that the API server treats as anonymous is not accepted, even if anonymous users may create a
// SelfSubjectReview and may not read the namespace that identifies the cluster.
func TestRegistry_CredentialOfNobody(t *testing.T) {
	t.Parallel()
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	r := newRegistry(t, nil)
	config.CredentialName = "good"
	spawn(t, r, "anonymous", config)
	const who, where = "/apis/authentication.k8s.io/v1/selfsubjectreviews", "/api/v1/namespaces/kube-system"
	nobody := func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer nobody" && (r.URL.Path == who || r.URL.Path == where)
	}
	f.set(nobody, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == where {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:anonymous"}}}`)
	})
	next := configFor(t, f.kubeconfig("nobody"))
	next.CredentialName = "nobody"
	must(t, r.Ensure("anonymous", next))
	eventually(t, func() error {
		info, _ := r.Status("anonymous")
		if info.CredentialName == "nobody" {
			t.Fatal("the anonymous credential is in use")
		}
		if info.State != state.StateReady || info.NewCredential.Reason != state.ReasonNotInUse {
			return fmt.Errorf("got %s, new credential %+v", info.State, info.NewCredential)
		}
		return nil
	})
}
