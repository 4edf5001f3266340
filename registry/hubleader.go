// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
)

// HubRuns says in which replicas a hub part runs, if several share the remotes: each Registry has its own remotes only.
type HubRuns string

const (
	// OnLeader is the leading replica, for controllers of hub objects that need no remote. Its Registry has its remotes only.
	//
	// It has one life for each leadership. Otherwise requests that may change the hub fail with ErrNotLeader; events are dropped.
	OnLeader HubRuns = "OnLeader"
	// WithRemotes is every replica: Each, List, Follow and registry/watch have its remotes, and WithClient fails for others.
	WithRemotes HubRuns = "WithRemotes"
)

// Leader tells whether this replica leads; at most one does. All methods may be called from any goroutine.
type Leader interface {
	// Await returns when this replica leads, or with ctx's cause. The returned context ends, with a cause that matches ErrNotLeader,
	// with the leadership, not with ctx. The caller must then end its work and call ended; before that, this replica leads again
	// only if the work takes too long.
	Await(ctx context.Context) (leads context.Context, ended func(), err error)
	Check() error // Check matches ErrNotLeader unless this replica leads now. It is called before each write, and must not block.
}

func checkHubRuns(o Options, modules catalog.Catalog) error {
	if o.HubParts.Leader == nil {
		return nil
	}
	var silent []string
	var problems []error
	for i := range modules {
		e := &modules[i]
		switch runs := HubRuns(e.HubRuns); {
		case e.Hub == nil:
		case runs != OnLeader && runs != WithRemotes:
			silent = append(silent, e.Name)
		case runs == OnLeader && e.Shares():
			problems = append(problems, fmt.Errorf("module %q: its hub part shares values with the apps of all replicas, "+
				"so it runs in each of them; write HubRuns: registry.WithRemotes into its ModuleOptions", e.Name))
		}
	}
	if len(silent) > 0 {
		problems = append(problems, fmt.Errorf("replicas of this hub share its remotes, and the hub parts of these modules do not "+
			"say where they run: %s; write into their ModuleOptions HubRuns: registry.OnLeader for controllers of objects of the hub, "+
			"which run in the replica that leads, or HubRuns: registry.WithRemotes for hub parts that run in every replica, "+
			"each with its own remotes", strings.Join(silent, ", ")))
	}
	return errors.Join(problems...)
}
