// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// subject is a Cluster that is rehearsed.
type subject struct {
	name      string
	desired   state.Desired
	transport *kubeconfig.Transport
	recorders []*recorder
	repeated  time.Time // when its controllers began to do everything again
	lost      bool      // a finding says why its app does not run
}

// choose reads the Clusters of the sample and their Secrets, and leaves out those that cannot be rehearsed.
func (r *rehearsal) choose(ctx context.Context) error {
	var list hubv1.ClusterList
	if err := r.hub.List(ctx, &list, client.MatchingLabelsSelector{Selector: cmp.Or[labels.Selector](r.Selector, labels.Everything())}); err != nil {
		return fmt.Errorf("list Clusters: %w", err)
	}
	for _, c := range r.sample(list.Items) {
		s, err := r.subject(ctx, &c)
		if err != nil {
			r.find(Finding{Cluster: c.Name, Class: NotRunning, Detail: err.Error()})
			continue
		}
		r.clusters = append(r.clusters, s)
	}
	unheld := r.unheld(ctx)
	r.clusters = slices.DeleteFunc(r.clusters, func(s *subject) bool {
		why := unheld[s]
		if why == nil {
			return false
		}
		s.transport.Close()
		class := NotRunning // It cannot be asked.
		if errors.Is(why, ErrNotHeld) {
			class = NotHeld
		}
		r.find(Finding{Cluster: s.name, Class: class, Detail: why.Error()})
		return true
	})
	return nil
}

// atOnce is how many remotes are asked at the same time.
const atOnce = 16

// unheld returns why it cannot be said of remotes that the policy is in force.
func (r *rehearsal) unheld(ctx context.Context) map[*subject]error {
	all := map[*subject]error{}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, s := range r.clusters {
		if r.Trust || s.desired.Paused {
			continue
		}
		group.Go(func() error {
			why := Held(ctx, s.transport, s.desired.Endpoint.Server)
			r.mu.Lock()
			defer r.mu.Unlock()
			all[s] = why
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	return all
}

// sample takes the first of each value of a label by name, so that the same Clusters are rehearsed again.
func (r *rehearsal) sample(all []hubv1.Cluster) []hubv1.Cluster {
	slices.SortFunc(all, func(a, b hubv1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	taken := map[string]int{}
	var some []hubv1.Cluster
	for _, c := range all {
		if c.DeletionTimestamp != nil || clusterstatus.IsPaused(&c) {
			r.find(Finding{Cluster: c.Name, Class: NotRehearsed, Detail: "the Cluster is paused or being deleted"})
			continue
		}
		full := r.Max > 0 && len(some) >= r.Max
		for label, most := range r.PerLabel {
			value := label + "=" + c.Labels[label]
			taken[value]++
			full = full || taken[value] > most
		}
		if !full {
			some = append(some, c)
		}
	}
	return some
}

func (r *rehearsal) subject(ctx context.Context, c *hubv1.Cluster) (*subject, error) {
	key := client.ObjectKey{Namespace: r.secretsNamespace(), Name: c.Spec.KubeconfigSecretRef.Name}
	var secret corev1.Secret
	err := r.hub.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) && !r.Trust {
		return nil, fmt.Errorf("there is no account for rehearsals: run register %s --rehearsal", c.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	of := c.DeepCopy()
	if !r.Trust { // The Secret of a rehearsal is written by register, whatever the Cluster's is like.
		of.Spec.KubeconfigSecretRef.Key, of.Spec.KubeconfigSecretRef.Context = "", ""
	}
	desired, err := cluster.Desired(of, secret.Data, cluster.Settings{Policy: r.Hub.Registry.Policy})
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig in Secret %s: %w", key, err)
	}
	transport, err := kubeconfig.NewTransport(kubeconfig.Connection{Endpoint: desired.Endpoint, Credential: desired.Credential}, r.Hub.Registry.Policy)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig in Secret %s: %w", key, err)
	}
	return &subject{
		name: c.Name, desired: desired, transport: transport,
		recorders: []*recorder{newRecorder(c.Name, true, r.live), newRecorder(c.Name, false, transport)},
	}, nil
}

func (r *rehearsal) secretsNamespace() string {
	if r.Trust {
		return cmp.Or(r.Hub.CredentialsNamespace, hubv1.DefaultNamespace)
	}
	return roles.RehearsalNamespace
}
