// SPDX-License-Identifier: Apache-2.0

package syncer

import "sigs.k8s.io/controller-runtime/pkg/client"

// Down is an upstream object without a downstream object.
type Down[T client.Object] struct {
	Upstream T // Upstream may be changed by the syncer
	*Session[T]
}

// Both is an upstream object with its downstream object.
type Both[T client.Object] struct {
	// Upstream and Downstream may be changed by the syncer.
	Upstream, Downstream T
	// Imported: SyncUp made the upstream object. The downstream object is somebody else's, and Session refuses to
	// write it.
	Imported bool
	*Session[T]
}

// Up is a downstream object without an upstream object.
type Up[T client.Object] struct {
	Downstream T // somebody else's: Session refuses to write it
	*Session[T]
}
