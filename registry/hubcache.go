// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noCache replaces the hub's cache in a registry without Options.HubCache.
type noCache struct{}

var errNoCache = errors.New("this registry was made without Options.HubCache; use the manage-client")

func (noCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errNoCache
}

func (noCache) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errNoCache
}
