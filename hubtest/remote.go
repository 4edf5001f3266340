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

// A Remote is a cluster that the hub may know, and its API server.
type Remote struct {
	Server

	state *remote
}

// remote is shared by all Remote values for it.
type remote struct {
	name       string
	way        *way
	users      int               // minted so far
	credential *fleet.Credential // stored last
	bySecret   bool              // the hub makes the Cluster from the Secret
}

// Name of the remote and of its Cluster.
func (r *Remote) Name() string { return r.state.name }

// Register stores a kubeconfig in a Secret and creates the Cluster, changed by the Clusters option and changes. It
// does not wait; see WaitReady.
func (r *Remote) Register(changes ...func(*hubv1.Cluster)) {
	r.tb.Helper()
	if r.state.credential == nil {
		r.mint((*fleet.Cluster).MintToken, 0)
	}
	r.store()
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name()}}
	c.Spec.KubeconfigSecretRef.Name = r.Name()
	c.Spec.Probe = hubv1.ProbeSpec{PeriodSeconds: 1, TimeoutSeconds: 1}
	if r.site.agents != nil {
		c.Spec.Via = hubv1.ViaTunnel
	}
	for _, change := range r.site.options.clusters {
		change(c)
	}
	for _, change := range changes {
		change(c)
	}
	r.must(r.hub().Create(r.tb.Context(), c), "register %s", r.Name())
	if r.site.agents != nil {
		r.connectAgent(c)
	}
}

// Deregister deletes the Cluster, waits until the hub has removed it, cleanup steps included, and deletes the Secret,
// first if that registers the remote. It can be registered again.
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
	if r.site.agents != nil {
		r.site.agents.End(r.Name())
	}
}

// Cluster reads the remote's Cluster.
func (r *Remote) Cluster() *hubv1.Cluster {
	r.tb.Helper()
	c, err := r.get(r.tb.Context())
	r.must(err, "read the Cluster of %s", r.Name())
	return c
}

// Change changes labels, annotations or spec of the Cluster.
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
	r.must(err, "change the Cluster of %s", r.Name())
}

// WaitReady waits until the Cluster is Ready in its current generation, and the app lends its client. Modules may
// still wait for an API or a permission; see WaitModule.
func (r *Remote) WaitReady() {
	r.tb.Helper()
	r.wait("a Ready Cluster", func(ctx context.Context) error {
		if err := r.check(ctx, hubv1.ConditionReady, metav1.ConditionTrue, ""); err != nil {
			return err
		}
		return r.withApp(ctx, func(context.Context, cluster.Cluster) error { return nil })
	})
}

// WaitNotReady waits for a Reason constant of api/v1alpha1.
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

// WaitCondition waits for a condition in the Cluster's current generation. An empty reason matches all.
func (r *Remote) WaitCondition(condition string, status metav1.ConditionStatus, reason string) {
	r.tb.Helper()
	r.wait(fmt.Sprintf("%s=%s/%s", condition, status, reason), func(ctx context.Context) error {
		return r.check(ctx, condition, status, reason)
	})
}

// WaitModule waits for a module's state in the status of the Cluster.
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

// WaitModuleGone waits until the status of the current generation does not list the module: it is not wanted and does
// not run.
func (r *Remote) WaitModuleGone(name string) {
	r.tb.Helper()
	r.wait(fmt.Sprintf("module %s to be gone", name), func(ctx context.Context) error {
		c, err := r.observed(ctx)
		if err != nil {
			return err
		}
		for _, m := range c.Status.Modules {
			if m.Name == name {
				return fmt.Errorf("it is %s, in the status of %s", m.State, r.Name())
			}
		}
		return nil
	})
}

func (r *Remote) check(ctx context.Context, condition string, status metav1.ConditionStatus, reason string) error {
	c, err := r.observed(ctx)
	if err != nil {
		return err
	}
	found := meta.FindStatusCondition(c.Status.Conditions, condition)
	switch {
	case found == nil:
		return fmt.Errorf("there is no condition %s", condition)
	case found.Status != status, reason != "" && found.Reason != reason:
		return fmt.Errorf("%s is %s, %s: %s", condition, found.Status, found.Reason, found.Message)
	}
	return nil
}

func (r *Remote) withApp(ctx context.Context, f func(context.Context, cluster.Cluster) error) error {
	parts, err := r.site.process.running()
	if err != nil {
		return err
	}
	return parts.Registry.WithCluster(ctx, registry.ClusterName(r.Name()), f)
}

func (r *Remote) hub() client.Client { return r.site.hub.direct }

func (r *Remote) get(ctx context.Context) (*hubv1.Cluster, error) {
	c := &hubv1.Cluster{}
	return c, r.hub().Get(ctx, client.ObjectKey{Name: r.Name()}, c)
}

// observed fails until the hub has observed the present generation.
func (r *Remote) observed(ctx context.Context) (*hubv1.Cluster, error) {
	c, err := r.get(ctx)
	if err == nil && c.Status.ObservedGeneration != c.Generation {
		err = fmt.Errorf("the hub has observed generation %d, not %d yet", c.Status.ObservedGeneration, c.Generation)
	}
	return c, err
}

func (r *Remote) secretMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: r.Name(), Namespace: r.site.process.credentialsNamespace()}
}

func (r *Remote) store() {
	r.tb.Helper()
	secret := r.secret(r.state.credential)
	err := r.hub().Create(r.tb.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = r.hub().Patch(r.tb.Context(), secret, client.MergeFrom(&corev1.Secret{ObjectMeta: r.secretMeta()}))
	}
	r.must(err, "store the credentials of %s", r.Name())
}

// Kill ends the remote's API server as a loss of power does. Its data remain for Restart.
func (r *Remote) Kill() {
	r.tb.Helper()
	r.must(r.way.cluster.Kill(), "kill %s", r.Name())
}

// Restart starts the remote's API server, ending it first if it runs, and waits about two seconds until it is ready,
// with the same address and data.
func (r *Remote) Restart() {
	r.tb.Helper()
	r.must(r.way.cluster.Restart(r.tb.Context()), "restart %s", r.Name())
}
