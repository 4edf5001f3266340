// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// Diff names what a rule would write, without writing it.
func TestDiff(t *testing.T) {
	t.Parallel()
	r := pull()
	r.Exclude, r.Adopt = []string{"/data/theirs"}, hubv1.SyncAdoptIfEqual
	s := newTwoClusters(t, r)
	content := map[string]string{"k": "new", "theirs": "not copied"}
	names := map[string]string{}
	for name, copied := range map[string]func(*corev1.ConfigMap){
		"same":    func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "new"} },
		"changed": func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "old", "theirs": "kept"} },
		"fixed":   func(c *corev1.ConfigMap) { c.Data, c.Immutable = map[string]string{"k": "old"}, new(true) },
		"again":   func(c *corev1.ConfigMap) { c.Annotations[r.Identity(at(edge)).Keys().ObjectUID] = "of-the-one-before" },
		"equal":   func(c *corev1.ConfigMap) { c.Labels, c.Annotations, c.Data = nil, nil, content },
		"blocked": func(c *corev1.ConfigMap) { c.Labels, c.Annotations = nil, nil },
		"gone":    func(*corev1.ConfigMap) {},
		"new":     nil,
	} {
		original := s.original(s.hub, "source", name)
		original.Data = content
		must(t, s.hub.Update(t.Context(), original))
		made := copyOf(t, r, edge, original)
		names[name] = "target/" + made.Name
		if copied != nil {
			copied(made)
			s.create(s.remote, made)
		}
		if name == "gone" {
			must(t, s.hub.Delete(t.Context(), original))
		}
	}
	before := s.versions()
	all, err := s.diff.Run(t.Context())
	must(t, err)
	got := map[string]string{}
	for _, c := range all {
		must(t, c.Err)
		got[c.Object] = strings.TrimSpace(string(c.Action) + " " + c.Reason + " " + strings.Join(c.Fields, " "))
	}
	want := map[string]string{
		names["changed"]: "Update  data.k", names["again"]: "Replace", names["gone"]: "Delete", names["blocked"]: "Blocked",
		names["new"]: "Create", names["equal"]: "Adopt", names["fixed"]: "Rejected Invalid data",
	}
	testkit.Equal(t, got, want, "Diff")
	testkit.Equal(t, s.versions(), before, "Diff has written")
	diffAway(t, s)
}

// diffAway: a remote that is away has an error, and the others have their differences.
func diffAway(t *testing.T, s *twoClusters) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	s.create(s.hub, &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "away"},
		Spec: hubv1.ClusterSpec{
			Server: "https://" + address, KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: edge, Key: "kubeconfig"},
		},
	})
	all, err := s.diff.Run(t.Context())
	must(t, err)
	if len(all) < 2 || all[0].Cluster != "away" || all[0].Err == nil || all[1].Err != nil {
		t.Errorf("the differences are %+v", all)
	}
	s.diff.Cluster = "nowhere"
	testkit.ErrorHas(t, testkit.Err(s.diff.Run(t.Context())), "selects no Cluster nowhere", "an unknown Cluster")
}

// Diff says that the copy of a hub in takeOver becomes the rule's, and that one of any other hub is in the way.
func TestDiff_TakeOver(t *testing.T) {
	t.Parallel()
	r := pull()
	r.To.Naming, r.TakeOver = hubv1.SyncMirror, []string{"elsewhere"}
	s := newTwoClusters(t, r)
	want := map[string]string{}
	for hub, action := range map[string]string{"elsewhere": "Adopt", "unknown": "Blocked"} {
		made := copyOf(t, r, edge, s.original(s.hub, "source", hub))
		made.Labels[r.Identity(at(edge)).Keys().ManagedBy] = r.Tenant(rules.Place{HubID: hub, Cluster: edge})
		s.create(s.remote, made)
		want["target/"+hub] = action
	}
	testkit.Equal(t, s.actions(t), want)
}

// Diff says what the app would do: in the mode Create it changes no copy, and deletes those of originals that are gone or have moved.
func TestDiff_Create(t *testing.T) {
	t.Parallel()
	r := pull()
	r.Mode = hubv1.SyncCreate
	s := newTwoClusters(t, r)
	changed, gone := s.original(s.hub, "source", "changed"), s.original(s.hub, "source", "gone")
	want := map[string]string{}
	for _, original := range []*corev1.ConfigMap{changed, gone} {
		now, earlier := copyOf(t, r, edge, original), copyOf(t, r, edge, original)
		now.Data = map[string]string{"k": "old"}
		earlier.Name = "earlier-" + original.Name
		earlier.Annotations[r.Identity(at(edge)).Keys().HostName] = earlier.Name
		s.create(s.remote, now)
		s.create(s.remote, earlier)
		want["target/"+earlier.Name] = "Delete"
		if original == gone {
			want["target/"+now.Name] = "Delete"
		}
	}
	must(t, s.hub.Delete(t.Context(), gone))
	testkit.Equal(t, s.actions(t), want)
}

// A remote whose request fails has an error, whichever request it is; a write in conflict is tried again, and each difference is said once.
func TestDiff_Fails(t *testing.T) {
	t.Parallel()
	r := pull()
	s := newTwoClusters(t, r)
	original := s.original(s.hub, "source", "moved")
	original.Data = map[string]string{"k": "new"}
	must(t, s.hub.Update(t.Context(), original))
	now, earlier := copyOf(t, r, edge, original), copyOf(t, r, edge, original)
	earlier.Name = "earlier"
	earlier.Annotations[r.Identity(at(edge)).Keys().HostName] = earlier.Name
	s.create(s.remote, now)
	s.create(s.remote, earlier)
	left, code := 0, 0
	config := rest.CopyConfig(s.remote.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if code == http.StatusConflict && r.Method != http.MethodPatch {
				return next.RoundTrip(r)
			}
			if left--; left == 0 {
				return &http.Response{StatusCode: code, Body: http.NoBody, Request: r}, nil
			}
			return next.RoundTrip(r)
		})
	})
	s.diff.Reach = func(context.Context, *hubv1.Cluster) (*access.Cluster, func(), error) {
		faulty, err := access.New(edge, config)
		return faulty, func() {}, err
	}
	want := map[string]string{"target/earlier": "Delete", "target/" + now.Name: "Update"}
	for _, code = range []int{http.StatusInternalServerError, http.StatusConflict} {
		for n := 1; left <= 0; n++ {
			left = n
			if code == http.StatusConflict {
				testkit.Equal(t, s.actions(t), want, "after a conflict")
				continue
			}
			all, err := s.diff.Run(t.Context())
			must(t, err)
			if fails := slices.ContainsFunc(all, func(c objectsync.Change) bool { return c.Err != nil }); fails != (left <= 0) {
				t.Errorf("request %d fails: got %+v", n, all)
			}
		}
		left = 0
	}
}

// actions are those of each object.
func (s *twoClusters) actions(t *testing.T) map[string]string {
	t.Helper()
	all, err := s.diff.Run(t.Context())
	must(t, err)
	got := map[string]string{}
	for _, c := range all {
		must(t, c.Err)
		got[c.Object] += string(c.Action)
	}
	return got
}

// What an API server allocates is no difference.
func TestDiff_Allocated(t *testing.T) {
	t.Parallel()
	r := pull()
	r.Kind, r.To.Naming = hubv1.SyncKind{APIVersion: "v1", Kind: "Service"}, hubv1.SyncMirror
	s := newTwoClusters(t, r)
	service := func(of metav1.ObjectMeta) *corev1.Service {
		return &corev1.Service{ObjectMeta: of, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"},
		}}
	}
	create := func(in *access.Cluster, obj client.Object) {
		all, err := client.New(in.Config, client.Options{})
		must(t, err)
		must(t, all.Create(t.Context(), obj))
	}
	original := service(metav1.ObjectMeta{Namespace: "source", Name: "web"})
	create(s.hub, original)
	copied := service(copyOf(t, r, edge, &corev1.ConfigMap{ObjectMeta: original.ObjectMeta}).ObjectMeta)
	create(s.remote, copied)
	if original.Spec.ClusterIP == copied.Spec.ClusterIP && original.Spec.Ports[0].NodePort == copied.Spec.Ports[0].NodePort {
		t.Fatal("both API servers have allocated the same")
	}
	all, err := s.diff.Run(t.Context())
	must(t, err)
	if len(all) > 0 {
		t.Errorf("the differences are %+v", all)
	}
}
