// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// WithClient calls f with a client for the remote: reads come from the app's cache, writes go to
// the remote. It returns f's error as it is.
//
// It never waits for the network before it calls f: where the remote cannot be used now it
// returns a NotReadyError at once, and ErrNotFound for an unknown name. No lock is held while f
// runs, so that f may take its time and may call the registry. The context given to f ends with
// ctx, and with cause ErrStopped when the app is stopped, which does not wait for f; a request
// that f sends after that fails with ErrStopped. f must not keep the client.
//
// Reading a kind that no module of the app watches makes the app watch it, as always with
// controller-runtime's clients; WithCluster gives a reader that does not.
func (r *Registry) WithClient(
	ctx context.Context, name ClusterName, f func(ctx context.Context, remote client.Client) error,
) error {
	return r.WithCluster(ctx, name, func(ctx context.Context, c cluster.Cluster) error {
		return f(ctx, c.GetClient())
	})
}

// WithCluster is WithClient for callers that need more of the remote than its client, such as
// GetAPIReader for live reads.
func (r *Registry) WithCluster(
	ctx context.Context, name ClusterName, f func(ctx context.Context, remote cluster.Cluster) error,
) error {
	a, err := r.actor(name)
	if err != nil {
		return err
	}
	now := a.current.Load()
	if now.epoch == nil {
		return notReady(now.info)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(now.epoch.ctx, func() { cancel(ErrStopped) })()
	return f(ctx, now.epoch.values.Connection)
}

func notReady(info Info) error {
	return &NotReadyError{Name: info.Name, State: info.State, Reason: info.Reason, Message: info.Message}
}
