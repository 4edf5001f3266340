// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"fmt"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

func Example() {
	run := func(ctx context.Context) error {
		f, err := fleet.New(ctx, fleet.Options{})
		if err != nil {
			return err
		}
		defer func() { _ = f.Close(context.WithoutCancel(ctx)) }()
		remote, err := f.Create(ctx, "remote")
		if err != nil {
			return err
		}
		p, err := fault.New(remote.Server())
		if err != nil {
			return err
		}
		defer p.Close()
		kubeconfig, err := p.Kubeconfig(remote.Kubeconfig())
		if err != nil {
			return err
		}
		fmt.Println(len(kubeconfig) > 0) // for a client to use
		// Pull the cable, and plug it in again.
		if err := p.Set(fault.Blackhole()); err != nil {
			return err
		}
		return p.Set(fault.Pass())
	}
	_ = run // Without an Output comment an example is compiled, not run.
}
