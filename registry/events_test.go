// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

// Events of a module with the same note make one series, with both the recorder of the app and the recorder of its manager.
func TestRemote_Events(t *testing.T) {
	t.Parallel()
	c, config := remote(t, "one")
	direct := clientFor(t, c)
	about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "told-", Namespace: "default"}}
	must(t, direct.Create(t.Context(), about))
	teller := registry.NewModule("teller", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return p.Manager.Add(manager.RunnableFunc(func(context.Context) error {
			for reason, to := range map[string]events.EventRecorder{"Remote": p.EventRecorder, "Manager": p.Manager.GetEventRecorder("teller")} {
				for n := range 6 {
					to.Eventf(about, nil, "Normal", reason, "Count", "%d of 2", n%2+1)
				}
			}
			return nil
		}))
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{teller} })
	spawn(t, r, "told", config)
	eventually(t, func() error {
		var all eventsv1.EventList
		if err := direct.List(t.Context(), &all, client.InNamespace("default")); err != nil {
			return err
		}
		got := map[string]int{}
		for _, e := range all.Items {
			if e.Regarding.Name == about.Name && e.Series != nil {
				got[e.Reason+": "+e.Note]++
			}
		}
		for _, reason := range []string{"Remote", "Manager"} {
			if got[reason+": 1 of 2"] != 1 || got[reason+": 2 of 2"] != 1 {
				return fmt.Errorf("got series %v, want 1 for each recorder and note", got)
			}
		}
		return nil
	})
}
