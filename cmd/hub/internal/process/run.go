// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/dig"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
)

// Run is app.Run.
func Run(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	site := newSite()
	ports, err := serving.Listen(ctx, serving.Options{
		Metrics: o.MetricsAddress, Health: o.HealthAddress, Debug: o.DebugAddress, Checks: site.Checks, Log: o.Log,
	})
	if err != nil {
		return err
	}
	defer ports.Close()
	o.Registry.HubID, err = preflight(ctx, o.Config, scheme)
	switch {
	case ctx.Err() != nil:
		return nil // The preflight was cut short, whatever its error.
	case err != nil:
		return err
	}
	if err := checkAlone(ctx, o, scheme); err != nil {
		return err
	}
	convictLast(ctx, o, scheme)
	return runHub(ctx, hubOptions{Options: o}, scheme, site)
}

// cause drops the path through the graph, unless the graph is wrong: then the path is the explanation.
func cause(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if _, ofGraph := inner.(dig.Error); !ofGraph { //nolint:errorlint // one link of the chain at a time
			return inner
		}
	}
	return err
}
