// SPDX-License-Identifier: Apache-2.0

package syncer

import "sigs.k8s.io/controller-runtime/pkg/client"

// Down is an upstream object without a downstream object.
type Down[T client.Object] struct {
	// Upstream is the object. The syncer may change it.
	Upstream T
	*Session[T]
}

// Both is an upstream object with its downstream object.
type Both[T client.Object] struct {
	// Upstream and Downstream are the objects. The syncer may change them.
	Upstream, Downstream T
	// Imported says that the upstream object was made for the downstream object by SyncUp. Such a downstream object belongs
	// to somebody else: Session refuses to write it.
	Imported bool
	*Session[T]
}

// Up is a downstream object without an upstream object.
type Up[T client.Object] struct {
	// Downstream is the object. It belongs to somebody else: Session refuses to write it.
	Downstream T
	*Session[T]
}
