// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// Processes that ended with one app, and start again at once, all record their crash.
func TestConvict_AtOnce(t *testing.T) {
	t.Parallel()
	h := newIdleHub(t, nil)
	name := h.name("poison")
	h.newCluster(name, nil)
	const processes = 3
	var read, recording sync.WaitGroup
	read.Add(processes)
	for i := range processes {
		meet := sync.OnceFunc(func() { read.Done(); read.Wait() }) // All have read before any writes.
		c := interceptor.NewClient(h.WithWatch, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
				defer meet()
				return c.Get(ctx, key, obj, o...)
			},
		})
		recording.Go(func() {
			crash := cluster.Crash{Cluster: name, At: time.Now().Add(time.Duration(i) * time.Second), Recorded: true}
			testkit.NoError(t, cluster.Convict(t.Context(), c, crash))
		})
	}
	recording.Wait()
	var recorded struct{ Count int }
	h.must(json.Unmarshal([]byte(h.get(name).Annotations[hubv1.AnnotationCrashes]), &recorded))
	testkit.Equal(t, recorded.Count, processes, "crashes are recorded")
}
