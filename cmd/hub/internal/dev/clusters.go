// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// hubName is also the hub's context in the kubeconfig.
const hubName = "hub"

func regions() []string { return []string{"eu", "us", "ap"} }

// startClusters starts all at once, and installs the CRD as soon as it can: for two seconds after that, an API server
// lets the first object wait.
func (d *demo) startClusters(ctx context.Context) error {
	o := fleet.Options{Provider: fleet.Provider(d.provider), Dir: d.folder.path(fleetDir), Image: d.image}
	switch o.Provider {
	case fleet.Kind:
		d.progress.step("starting %d clusters with kind; the first time it fetches an image", d.clusters+1)
		o.Log = indented{d.progress}
	default:
		d.progress.step("starting %d clusters: kube-apiserver %s and etcd, as processes of this machine",
			d.clusters+1, fleet.KubernetesVersion)
	}
	var err error
	if d.fleet, err = fleet.New(ctx, o); err != nil {
		return fmt.Errorf("start the clusters: %w", err)
	}
	d.remotes = make([]remote, d.clusters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if d.hub, err = d.startCluster(ctx, hubName); err != nil {
			return err
		}
		return d.install(ctx)
	})
	for i := range d.remotes {
		group.Go(func() (err error) {
			all := regions()
			region := all[i%len(all)]
			d.remotes[i].region = region
			d.remotes[i].Cluster, err = d.startCluster(ctx, fmt.Sprintf("edge-%s-%d", region, i/len(all)+1))
			return err
		})
	}
	return group.Wait()
}

func (d *demo) startCluster(ctx context.Context, name string) (*fleet.Cluster, error) {
	begin := time.Now()
	c, err := d.fleet.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	d.progress.done("%-12s %s   %s", name, c.Server(), since(begin))
	return c, nil
}
