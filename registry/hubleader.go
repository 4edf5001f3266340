// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
)

// HubRuns says in which replicas a hub part runs, if several replicas share the remotes: each runs the apps of its own
// remotes, and its Registry knows no others.
type HubRuns string

const (
	// OnLeader means the one replica that leads. It is for controllers of objects of the hub, which need no remote; its
	// Registry has the remotes of that replica only.
	//
	// The hub part has one life for each leadership. While the replica does not lead, each request that may change
	// something in the hub fails with ErrNotLeader, and events are dropped.
	OnLeader HubRuns = "OnLeader"
	// WithRemotes means every replica, each with a Registry of its own remotes: Each, List, Follow and registry/watch
	// are about these, and WithClient of another remote returns an error.
	WithRemotes HubRuns = "WithRemotes"
)

// Leader tells whether this replica leads; at most one does. All methods may be called from any goroutine.
type Leader interface {
	// Await returns when this replica leads, or with the cause of ctx if ctx ends first. The context that it returns
	// ends, with a cause that matches ErrNotLeader, when this replica no longer leads, but not with ctx. Then the
	// caller must end its work and call ended, whether or not the leadership has ended. This replica does not lead
	// again before that, unless the work takes too long.
	Await(ctx context.Context) (leads context.Context, ended func(), err error)
	// Check returns an error that matches ErrNotLeader unless this replica leads now. It must not block: it is called
	// before each write.
	Check() error
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
