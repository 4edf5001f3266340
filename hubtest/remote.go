// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// A Remote is a cluster that the hub knows, or may come to know, and its API server. Hub.Remote returns
// it.
type Remote struct {
	Server

	state *remote
}

// remote is the state of a remote that all Remote values for it share.
type remote struct {
	name       string
	way        *way
	users      int               // minted so far
	credential *fleet.Credential // the last stored credential
	bySecret   bool              // the hub creates the Cluster from the Secret
}

// Name returns the name of the remote and of its Cluster.
func (r *Remote) Name() string { return r.state.name }

// Register stores a kubeconfig with a token in a Secret and creates the Cluster, changed by the
// Clusters option and by changes. It does not wait; see WaitReady.
func (r *Remote) Register(changes ...func(*hubv1.Cluster)) {
	r.tb.Helper()
	if r.state.credential == nil {
		r.mint((*fleet.Cluster).MintToken, 0)
	}
	r.store()
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name()}}
	c.Spec.KubeconfigSecretRef.Name = r.Name()
	c.Spec.Probe = hubv1.ProbeSpec{PeriodSeconds: 1, TimeoutSeconds: 1}
	for _, change := range r.site.options.clusters {
		change(c)
	}
	for _, change := range changes {
		change(c)
	}
	if err := r.hub().Create(r.tb.Context(), c); err != nil {
		r.tb.Fatalf("hubtest: register %s: %v", r.Name(), err)
	}
}

// Deregister deletes the Cluster, waits until the hub has removed it, which includes the modules' cleanup steps, and
// deletes the Secret; a Secret that registers the remote is deleted first, because it would register the remote again.
// The remote can be registered again.
func (r *Remote) Deregister() {
	r.tb.Helper()
	hub := &Server{tb: r.tb, site: r.site, way: r.site.hub}
	if r.state.bySecret {
		hub.Delete(&corev1.Secret{ObjectMeta: r.secretMeta()})
		r.state.bySecret = false
	}
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name()}}
	hub.Delete(c)
	hub.WaitGone(c)
	hub.Delete(&corev1.Secret{ObjectMeta: r.secretMeta()})
}

// Cluster returns the Cluster of the remote as it is now.
func (r *Remote) Cluster() *hubv1.Cluster {
	r.tb.Helper()
	c, err := r.get(r.tb.Context())
	if err != nil {
		r.tb.Fatalf("hubtest: read the Cluster of %s: %v", r.Name(), err)
	}
	return c
}

// Change changes the labels, annotations or spec of the Cluster.
func (r *Remote) Change(change func(*hubv1.Cluster)) {
	r.tb.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := r.get(r.tb.Context())
		if err != nil {
			return err
		}
		change(c)
		return r.hub().Update(r.tb.Context(), c)
	})
	if err != nil {
		r.tb.Fatalf("hubtest: change the Cluster of %s: %v", r.Name(), err)
	}
}

// WaitReady waits until the Cluster is Ready in its current generation, and the app in the running hub lends out its
// client. A Cluster whose module waits for an API or a permission can be Ready; see WaitModule.
func (r *Remote) WaitReady() {
	r.tb.Helper()
	r.wait("a Ready Cluster", func(ctx context.Context) error {
		if err := r.check(ctx, hubv1.ConditionReady, metav1.ConditionTrue, ""); err != nil {
			return err
		}
		return r.withApp(ctx, func(context.Context, cluster.Cluster) error { return nil })
	})
}

// WaitNotReady waits until the Cluster is not Ready for this reason, one of the Reason constants of
// api/v1alpha1.
func (r *Remote) WaitNotReady(reason string) {
	r.tb.Helper()
	r.wait("a Cluster that is not Ready because of "+reason, func(ctx context.Context) error {
		err := r.check(ctx, hubv1.ConditionReady, metav1.ConditionFalse, reason)
		if err != nil && r.check(ctx, hubv1.ConditionReady, metav1.ConditionUnknown, reason) == nil {
			return nil
		}
		return err
	})
}

// WaitCondition waits until a condition of the Cluster, observed in its current generation, has a status and a reason.
// An empty reason matches all.
func (r *Remote) WaitCondition(condition string, status metav1.ConditionStatus, reason string) {
	r.tb.Helper()
	r.wait(fmt.Sprintf("%s=%s/%s", condition, status, reason), func(ctx context.Context) error {
		return r.check(ctx, condition, status, reason)
	})
}

// WaitModule waits until a module is in a state, according to the status of the Cluster.
func (r *Remote) WaitModule(name string, state hubv1.ModuleState) {
	r.tb.Helper()
	r.wait(fmt.Sprintf("module %s to be %s", name, state), func(ctx context.Context) error {
		c, err := r.get(ctx)
		if err != nil {
			return err
		}
		for _, m := range c.Status.Modules {
			if m.Name == name && m.State == state {
				return nil
			}
		}
		return fmt.Errorf("it is not, in the status of %s", r.Name())
	})
}

// WaitModuleGone waits until a module is neither wanted for the remote nor runs there: the status of the Cluster for its
// current generation does not list it.
func (r *Remote) WaitModuleGone(name string) {
	r.tb.Helper()
	r.wait(fmt.Sprintf("module %s to be gone", name), func(ctx context.Context) error {
		c, err := r.get(ctx)
		if err != nil {
			return err
		}
		if c.Status.ObservedGeneration != c.Generation {
			return fmt.Errorf("the hub has observed generation %d, not %d yet", c.Status.ObservedGeneration, c.Generation)
		}
		for _, m := range c.Status.Modules {
			if m.Name == name {
				return fmt.Errorf("it is %s, in the status of %s", m.State, r.Name())
			}
		}
		return nil
	})
}

// check returns nil if a condition has the wanted status and reason.
func (r *Remote) check(ctx context.Context, condition string, status metav1.ConditionStatus, reason string) error {
	c, err := r.get(ctx)
	if err != nil {
		return err
	}
	found := meta.FindStatusCondition(c.Status.Conditions, condition)
	switch {
	case c.Status.ObservedGeneration != c.Generation:
		return fmt.Errorf("the hub has observed generation %d, not %d yet", c.Status.ObservedGeneration, c.Generation)
	case found == nil:
		return fmt.Errorf("there is no condition %s", condition)
	case found.Status != status, reason != "" && found.Reason != reason:
		return fmt.Errorf("%s is %s, %s: %s", condition, found.Status, found.Reason, found.Message)
	}
	return nil
}

// withApp calls f with the cluster.Cluster of the remote's app.
func (r *Remote) withApp(ctx context.Context, f func(context.Context, cluster.Cluster) error) error {
	parts, err := r.site.process.running()
	if err != nil {
		return err
	}
	return parts.Registry.WithCluster(ctx, registry.ClusterName(r.Name()), f)
}

// hub returns the test's client for the hub.
func (r *Remote) hub() client.Client { return r.site.hub.direct }

func (r *Remote) get(ctx context.Context) (*hubv1.Cluster, error) {
	c := &hubv1.Cluster{}
	return c, r.hub().Get(ctx, client.ObjectKey{Name: r.Name()}, c)
}

func (r *Remote) secretMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: r.Name(), Namespace: r.site.process.credentialsNamespace()}
}

// store puts the credential into the Secret, with the address of the proxy.
func (r *Remote) store() {
	r.tb.Helper()
	secret := r.secret(r.state.credential)
	err := r.hub().Create(r.tb.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = r.replace(secret)
	}
	if err != nil {
		r.tb.Fatalf("hubtest: store the credentials of %s: %v", r.Name(), err)
	}
}

// Kill ends the remote's API server without notice, as a loss of power does. Its data remain for Restart.
func (r *Remote) Kill() {
	r.tb.Helper()
	if err := r.way.cluster.Kill(); err != nil {
		r.tb.Fatalf("hubtest: %v", err)
	}
}

// Restart starts the remote's API server after a Kill, or ends it and starts it again, and returns when
// it is ready, which takes about two seconds: at the same address, with the same data.
func (r *Remote) Restart() {
	r.tb.Helper()
	if err := r.way.cluster.Restart(r.tb.Context()); err != nil {
		r.tb.Fatalf("hubtest: %v", err)
	}
}
