// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// A module that hangs, or that creates other objects repeatedly, does not keep the others from a report.
func (a *audited) expectUnsettled(t *testing.T) {
	o := options(a.hub.Config(),
		module("hangs", func(ctx context.Context, p registry.Remote) error {
			if p.Name == "rome" {
				<-ctx.Done()
			}
			return nil
		}),
		module("creates", func(ctx context.Context, p registry.Remote) error {
			for p.Name == "rome" && ctx.Err() == nil {
				if err := p.Client.Create(ctx, configMap("x-"+strings.ToLower(rand.Text()), nil)); err != nil {
					return err
				}
			}
			return p.Client.Create(ctx, configMap("one", nil))
		}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(_ string, atRest ...any) {
		if atRest[0] == 2 { // the hub parts, and oslo
			cancel()
		}
	}
	report, err := rehearse.Run(ctx, o)
	must(t, err)
	a.expectNoWrite(t)
	testkit.Equal(t, changes(report, "creates")[0], "oslo: create configmaps default/one", "the change of the other remote")
	if got := found(report, rehearse.NotAtRest, "", "rome").Detail; got == "" {
		t.Error("rome is at rest")
	}
	if got := found(report, rehearse.NotAtRest, "", "oslo").Detail; got != "" {
		t.Errorf("oslo: %s", got)
	}
}

// An interrupted rehearsal reports what there is.
func (a *audited) expectInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := options(a.hub.Config(), module("interrupts", func(ctx context.Context, p registry.Remote) error {
		err := p.Client.Create(ctx, configMap("one", nil))
		cancel()
		return err
	}))
	o.Selector = labels.SelectorFromSet(labels.Set{"name": "oslo"})
	report, err := rehearse.Run(ctx, o)
	must(t, err)
	testkit.Equal(t, changes(report, "interrupts"), []string{"oslo: create configmaps default/one"}, "changes")
	if found(report, rehearse.NotAtRest, "", "oslo").Detail+found(report, rehearse.NotRunning, "", "oslo").Detail == "" {
		t.Error("the report does not say that it is not complete") // The app is Ready by then, or not.
	}
}
