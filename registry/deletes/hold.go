// SPDX-License-Identifier: Apache-2.0

package deletes

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hold holds the deletes of one module and resource.
type Hold struct {
	// ID is unique in the hub, such as quota-configmaps-7f3a, and never used again.
	ID       string
	Module   string
	Resource schema.GroupResource
	// Cluster is where the limit was exceeded; empty for the hub. Fleet says that it was that of all clusters, so that
	// deletes are held in all.
	Cluster string
	Fleet   bool
	// Cause is what CausedBy names; empty for deletes without one, and "all causes" for those with any.
	Cause string
	Since time.Time
	// Deleted objects were deleted within ten minutes before the hold; More refused deletes are known.
	Deleted, More int
	// Names are up to ten objects of refused deletes, sorted. They are texts of the cluster.
	Names []string
	// Allowed is how many deletes an operator has allowed.
	Allowed int
}
