// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// app is what is rehearsed: the app of a Cluster, or the hub parts, which are the app without a name. It has what it asked of the
// hub and of its remote.
type app struct {
	name        string
	desired     state.Desired
	hub, remote http.RoundTripper // read at the end, when the clients of the app may have ended
	end         func()
	lost        atomic.Bool // it will not run, and a finding says why

	mu       sync.Mutex // protects the fields; not held for requests
	objects  map[key]*object
	made     map[place]bool    // objects of which only a dry run knows
	uids     map[string]string // of these objects, with their names
	findings map[Finding]bool
	writes   int
	failed   map[part]float64 // errors of its modules until their second round
	latest   time.Time        // when a write came that was not a repetition, or everything began again
}

// place is an object, and where it is.
type place struct {
	inHub bool
	what  string
}

func (p place) String() string {
	if !p.inHub {
		return p.what
	}
	return p.what + " in the hub"
}

func newApp(name string, hub, remote http.RoundTripper) *app {
	return &app{
		name: name, hub: hub, remote: remote,
		objects: map[key]*object{}, made: map[place]bool{}, uids: map[string]string{}, findings: map[Finding]bool{},
	}
}

// maxFindings of an app are enough to see what is wrong.
const maxFindings = 10_000

func (a *app) find(f Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(f)
}

// add needs the lock.
func (a *app) add(f Finding) {
	f.Cluster = cmp.Or(a.name, f.Cluster)
	if len(a.findings) < maxFindings {
		a.findings[f] = true
	}
}

// lose finds, once, why an app does not run, and will not.
func (a *app) lose(class Class, why string) {
	if a.lost.CompareAndSwap(false, true) {
		a.find(Finding{Class: class, Detail: why})
	}
}

// idle returns for how long an app has written nothing new.
func (a *app) idle() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.latest)
}

// choose reads the Clusters of the sample and their Secrets, and leaves out those that cannot be rehearsed.
func (r *rehearsal) choose(ctx context.Context) error {
	var list hubv1.ClusterList
	if err := r.hub.List(ctx, &list, client.MatchingLabelsSelector{Selector: cmp.Or[labels.Selector](r.Selector, labels.Everything())}); err != nil {
		return fmt.Errorf("list Clusters: %w", err)
	}
	sample := r.sample(list.Items)
	r.clusters = make([]*app, len(sample))
	atOnce(r.clusters, func(i int) {
		c := &sample[i]
		a, err := r.appOf(ctx, c)
		if err == nil {
			if err = r.held(ctx, a); err == nil {
				r.clusters[i] = a
				return
			}
			a.end()
		}
		class := NotRunning
		if errors.Is(err, ErrNotHeld) {
			class = NotHeld
		}
		r.hubParts.find(Finding{Cluster: c.Name, Class: class, Detail: err.Error()})
	})
	r.clusters = slices.DeleteFunc(r.clusters, func(a *app) bool { return a == nil })
	return nil
}

// atOnce calls f for each of them, for a number of them at the same time.
func atOnce[T any](all []T, f func(i int)) {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range all {
		group.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
}

// sample takes the first of each value of a label by name, so that the same Clusters are rehearsed again.
func (r *rehearsal) sample(all []hubv1.Cluster) []hubv1.Cluster {
	slices.SortFunc(all, func(a, b hubv1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	taken := map[string]int{}
	var some []hubv1.Cluster
	for _, c := range all {
		if c.DeletionTimestamp != nil || clusterstatus.IsPaused(&c) {
			r.hubParts.find(Finding{Cluster: c.Name, Class: NotRehearsed, Detail: "the Cluster is paused or being deleted"})
			continue
		}
		isFull := r.Max > 0 && len(some) >= r.Max
		for label, most := range r.PerLabel {
			isFull = isFull || taken[label+"="+c.Labels[label]] >= most
		}
		if isFull {
			continue
		}
		some = append(some, c)
		for label := range r.PerLabel {
			taken[label+"="+c.Labels[label]]++
		}
	}
	return some
}

// appOf reads the Secret of a Cluster. The app leaves the running hub at least as much of the rate limit as it takes.
func (r *rehearsal) appOf(ctx context.Context, c *hubv1.Cluster) (*app, error) {
	key, of := client.ObjectKey{Namespace: hubv1.RehearsalNamespace, Name: c.Spec.KubeconfigSecretRef.Name}, c.DeepCopy()
	if r.Trust {
		key.Namespace = cmp.Or(r.Hub.CredentialsNamespace, hubv1.DefaultNamespace)
	} else { // The Secret of a rehearsal is written by register, whatever the Cluster's is like.
		of.Spec.KubeconfigSecretRef.Key, of.Spec.KubeconfigSecretRef.Context = "", ""
	}
	var secret corev1.Secret
	err := r.hub.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) && !r.Trust {
		return nil, fmt.Errorf("there is no account for rehearsals: run register %s --rehearsal", c.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	desired, err := cluster.Desired(of, secret.Data, cluster.Settings{Policy: r.Hub.Registry.Policy})
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig in Secret %s: %w", key, err)
	}
	desired = desired.WithDefaults()
	desired.Client.QPS, desired.Client.Burst = desired.Client.QPS/2, max(desired.Client.Burst/2, 1)
	transport, err := kubeconfig.NewTransport(kubeconfig.Connection{Endpoint: desired.Endpoint, Credential: desired.Credential}, r.Hub.Registry.Policy)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig in Secret %s: %w", key, err)
	}
	a := newApp(c.Name, r.hubParts.hub, transport)
	a.desired, a.end = desired, transport.Close
	return a, nil
}
