// SPDX-License-Identifier: Apache-2.0

package deletes

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hold holds the deletes of one module and resource.
type Hold struct {
	// ID identifies the hold in the hub, such as quota-configmaps-7f3a. It is never used again.
	ID       string
	Module   string
	Resource schema.GroupResource
	// Cluster is the cluster in which the limit was exceeded; empty for the hub. Fleet says that the limit of all clusters
	// was exceeded, so that the deletes are held in all of them.
	Cluster string
	Fleet   bool
	// Cause is what CausedBy names; empty for deletes without a cause, and "all causes" for those with any. Others are not held.
	Cause string
	Since time.Time
	// Deleted is how many objects were deleted within ten minutes before the hold, More how many refused deletes are known.
	Deleted, More int
	// Names are up to ten of the objects whose deletes are refused, sorted. They are texts of the cluster.
	Names []string
	// Allowed is how many deletes an operator has allowed.
	Allowed int
}
