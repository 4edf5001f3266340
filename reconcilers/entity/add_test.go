// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Two controllers of an app with one kind on one bucket would delete each other's objects: the second one is refused. Another kind, and
// the next app of the cluster, are not.
// Promise: two modules have one kind on one bucket: the second one is refused.
func TestAdd_OneKindOnOneBucket(t *testing.T) {
	t.Parallel()
	var o entity.Options
	s := beginWith(t, func(s *stage) {
		s.adapt = func(of *entity.Options, r entity.Reconciler[order], _ func(string) *bucket.Bucket) entity.Reconciler[order] {
			o = *of
			return r
		}
	})
	add := func(o entity.Options) error {
		o.Name = "second"
		_, err := entity.Add(s.store, entity.Func[order](s.reconcile), o)
		return err
	}
	if err := add(o); !errors.Is(err, entity.ErrInvalidOptions) || !strings.Contains(err.Error(), "give second another Marks.Kind") {
		t.Errorf("got %v", err)
	}
	owner := o
	owner.OwnsEntities = []entity.Owned{{}}
	if err := add(owner); !errors.Is(err, entity.ErrInvalidOptions) || !strings.Contains(err.Error(), "Deletes") {
		t.Errorf("entities without a limiter: %v", err)
	}
	other := o
	other.Marks.Kind = "Offer"
	testkit.Must(t, add(other))
	var err error
	o.Manager, err = ctrl.NewManager(fleettest.Clusters(t, "remote")[0].Config(), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	testkit.Must(t, err)
	testkit.Must(t, add(o))
}
