// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// What an API server refuses is in the status with its class, and an object of another owner with the text of the event.
// Promise: a write that an API server refuses: the status has the class of the refusal.
func TestStatus_SaysWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := beginWith(t, func(s *stage) {
		s.adapt = func(*entity.Options, entity.Reconciler[order], func(string) *bucket.Bucket) entity.Reconciler[order] {
			return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
				obj := s.configMap(e.Key, e.Value.Data)
				if e.Key == "nowhere" {
					obj.Namespace = "does-not-exist"
				}
				return entity.Report{Ready: true, Reason: "Made"}, out.Apply(ctx, obj)
			})
		}
	})
	testkit.Must(t, s.remote.Create(t.Context(), s.configMap("foreign", nil)))
	for key, want := range map[string]struct{ reason, says string }{
		"foreign": {entity.ReasonResourceExists, `Resource "foreign" already exists and is not managed by this controller`},
		"nowhere": {entity.ReasonNamespaceMissing, "NotFound (404)"},
		"NO_NAME": {entity.ReasonRejected, "Invalid (422, metadata.name FieldValueInvalid)"},
	} {
		s.put(t, key, value("1"))
		if part := s.waitPart(t, key, want.reason); part.Ready || !strings.HasSuffix(part.Message, want.says) {
			t.Errorf("the status of %s is %+v, want %q", key, part, want.says)
		}
	}
	testkit.Must(t, s.remote.Delete(t.Context(), s.configMap("foreign", nil)))
	s.wait(t, "foreign", "1")
	if part := s.waitPart(t, "foreign", "Made"); !part.Ready {
		t.Errorf("the status is %+v", part)
	}
}
