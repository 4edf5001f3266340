// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

func TestWritten(t *testing.T) {
	t.Parallel()
	at := func(version string) *hubv1.Cluster {
		return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}}
	}
	var w written
	expect := func(cached, want string) *hubv1.Cluster {
		t.Helper()
		got := w.latest(at(cached))
		if got.ResourceVersion != want {
			t.Errorf("with version %s in the cache: got %s, want %s", cached, got.ResourceVersion, want)
		}
		return got
	}
	expect("9", "9")
	w.note(at("10"))
	expect("9", "10").Labels = map[string]string{"changed": "by the caller"}
	if got := expect("9", "10"); got.Labels != nil {
		t.Error("the caller has changed what is kept")
	}
	expect("10", "10")
	expect("9", "9") // It is kept no longer than it is needed.
	w.note(at("10"))
	expect("11", "11")
	w.note(at("12"))
	w.forget("a")
	expect("9", "9")
	w.note(at("not a number"))
	expect("9", "9")

	w.noteStatus(at("12"), hubac.Cluster("a").WithResourceVersion("13").WithStatus(hubac.ClusterStatus().WithVersion("v2").
		WithObservedGeneration(3)))
	if got := expect("12", "13"); got.Status.Version != "v2" || got.Status.ObservedGeneration != 3 {
		t.Errorf("got status %+v", got.Status)
	}
	w.forget("a")
	w.noteStatus(at("12"), hubac.Cluster("a").WithStatus(hubac.ClusterStatus())) // From a client that does not return the response.
	expect("11", "11")
}
