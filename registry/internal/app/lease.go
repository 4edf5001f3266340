// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// LendTo returns the client of leases: for a hub part with filters, a client that reads through them.
func (l *Life) LendTo(by *contain.Container) (client.Client, error) {
	module, from := "", client.Reader(nil)
	if all, ok := l.Manager.GetCache().(*contain.Cache); ok && by != nil && all.HasFilters(by.Module) {
		module, from = by.Module, all.ReaderFor(by.Module)
	}
	known, ok := l.lent.Load(module)
	if !ok {
		one, err := l.lend(from)
		if err != nil {
			return nil, err
		}
		known, _ = l.lent.LoadOrStore(module, one)
	}
	lent, _ := known.(client.Client)
	if by == nil {
		return lent, nil
	}
	return by.Client(lent), nil
}
