// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// LendTo returns the client of leases: for a hub part with filters, a client that reads through them.
func (e *Epoch) LendTo(by *contain.Container) (client.Client, error) {
	all, ok := e.values.Cache.(*cache.Cache)
	if by == nil {
		return e.lend()
	}
	if !ok || !all.HasFilters(by.Module) {
		c, err := e.lend()
		if err != nil {
			return nil, err
		}
		return by.Client(c), nil
	}
	if known, ok := e.lent.Load(by.Module); ok {
		return by.Client(known.(client.Client)), nil
	}
	one, err := e.lendReading(all.As(by.Module, nil, false))
	if err != nil {
		return nil, err
	}
	known, _ := e.lent.LoadOrStore(by.Module, one)
	return by.Client(known.(client.Client)), nil
}
