// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// api answers a create with the object, and everything else with the object at version 1.
func api(r *http.Request) (*http.Response, error) {
	body := []byte(`{"kind":"ConfigMap","metadata":{"name":"one","resourceVersion":"1"}}`)
	if r.Method == http.MethodPost {
		body, _ = io.ReadAll(r.Body)
	}
	return answer{status: http.StatusOK, body: body}.response(r), nil
}

func send(t *testing.T, by http.RoundTripper, method, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://remote/api/v1/namespaces/default/configmaps"+path, strings.NewReader(body))
	testkit.Must(t, err)
	r.Header.Set("Content-Type", "application/merge-patch+json")
	response, err := by.RoundTrip(r)
	testkit.Must(t, err)
	testkit.Must(t, response.Body.Close())
	return response.StatusCode
}

// Promise: the writes of a loop are stopped: different ones for one object, too many for one, and too many of an app.
func TestRecorder_Bounds(t *testing.T) {
	t.Parallel()
	sent, version := 0, 1
	count := answers(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("dryRun") != "" {
			sent++
		}
		if r.Method == http.MethodGet {
			return answer{status: http.StatusOK, body: fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"resourceVersion":"%d"}}`, version)}.response(r), nil
		}
		return api(r)
	})
	rec := &recorder{app: newApp("oslo", nil, nil), next: count}
	for i := range 10 {
		send(t, rec, http.MethodPatch, "/one", fmt.Sprintf(`{"data":{"n":"%d"}}`, i))
		send(t, rec, http.MethodPatch, "/one", fmt.Sprintf(`{"data":{"n":"%d"}}`, i/100))
	}
	testkit.Equal(t, sent, maxDifferent, "different writes that were sent")
	sent = 0
	for range 30 {
		version++
		send(t, rec, http.MethodPatch, "/two", `{"data":{"n":"1"}}`)
	}
	testkit.Equal(t, sent, maxOfObject, "writes of one object that were sent")
	sent, rec.app = 0, newApp("oslo", nil, nil)
	for i := range maxOfApp + 100 {
		send(t, rec, http.MethodPost, "", fmt.Sprintf(`{"metadata":{"generateName":"x","labels":{"n":"%d"},"ownerReferences":[{"kind":"Pod","name":"p-%d"}]}}`, i, i))
	}
	testkit.Equal(t, sent, maxOfApp, "writes of an app that were sent")
	testkit.Equal(t, rec.findings, map[Finding]bool{
		{Cluster: "oslo", Class: Stopped, Detail: "more than 10000 writes of one app"}: true,
	}, "findings")
	if len(rec.objects) > maxOfApp+1 {
		t.Errorf("it keeps %d objects", len(rec.objects))
	}
}

// What an API server refuses is a finding, but for a conflict with the running hub, after which the next reconcile finds the object as it
// should be.
func TestRecorder_Refusals(t *testing.T) {
	t.Parallel()
	rec := &recorder{app: newApp("oslo", nil, answers(api))}
	for name, status := range map[string]int{"conflict": http.StatusConflict, "webhook": http.StatusInternalServerError} {
		rec.next = answers(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return api(r)
			}
			return answer{status: status, body: []byte(`{"kind":"Status"}`)}.response(r), nil
		})
		testkit.Equal(t, send(t, rec, http.MethodPatch, "/"+name, `{"data":{"n":"1"}}`), status, "the answer")
	}
	testkit.Equal(t, len(rec.effective(t.Context())), 0, "changes")
	testkit.Equal(t, rec.findings, map[Finding]bool{
		{Cluster: "oslo", Class: Errors, Object: "configmaps default/webhook", Detail: "500 Internal Server Error"}: true,
	}, "findings")
}

// An account that may list an object needs no permission to get it. With neither, what would change is not known.
func TestRecorder_MayNotGet(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]Action{
		`{"kind":"ConfigMapList","items":[{"metadata":{"name":"one","resourceVersion":"0"},"data":{"n":"1"}}]}`: Update,
		`{"kind":"ConfigMapList","items":[]}`: Create,
		``:                                    Request,
	} {
		by := answers(func(r *http.Request) (*http.Response, error) {
			switch isList := r.URL.Query().Get("fieldSelector") == "metadata.name=one"; {
			case r.Method == http.MethodPatch:
				return api(r)
			case isList && list != "":
				return answer{status: http.StatusOK, body: []byte(list)}.response(r), nil
			}
			return answer{status: http.StatusForbidden}.response(r), nil
		})
		rec := &recorder{app: newApp("oslo", nil, by), next: by}
		send(t, rec, http.MethodPatch, "/one", `{}`)
		testkit.Equal(t, rec.effective(t.Context())[0].Action, want, list)
		testkit.Equal(t, len(rec.findings) == 0, want != Request, "a finding says so")
	}
}

// A report has at most 8 MiB, and says how much it leaves out.
func TestReport_Bounds(t *testing.T) {
	t.Parallel()
	var report Report
	for i := range 30_000 {
		report.Changes = append(report.Changes, Change{Object: fmt.Sprintf("%0250d", i)})
		report.Findings = append(report.Findings, Finding{Detail: fmt.Sprintf("%0250d", i)})
	}
	report.bound()
	var out bytes.Buffer
	testkit.Must(t, report.Print(&out))
	written := text(&report)
	if len(written) > 2*maxReport+1<<20 || report.Omitted != 60_000-len(report.Changes)-len(report.Findings) || report.Omitted == 0 {
		t.Errorf("the report has %d bytes, and leaves out %d", len(written), report.Omitted)
	}
}

// Promise: requests, objects and memory of each app are beside those of the running hub.
func TestRehearsal_Load(t *testing.T) {
	t.Parallel()
	const file = `# TYPE clusterfx_remote_requests_total counter
clusterfx_remote_requests_total{cluster="oslo",verb="list"} 3
clusterfx_remote_requests_total{cluster="oslo",verb="watch"} 4
# TYPE clusterfx_cache_bytes gauge
clusterfx_cache_bytes{cluster="oslo",kind="Pod"} 100
clusterfx_cache_bytes{cluster="oslo",kind="Node"} 20
`
	running, err := metricsIn(testkit.File(t, "metrics", file))
	testkit.Must(t, err)
	r := &rehearsal{metrics: prometheus.NewRegistry(), running: running}
	for name, labels := range map[string][]string{"clusterfx_remote_requests_total": {"cluster", "verb"}, "clusterfx_cache_bytes": {"cluster", "kind"}} {
		of := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name}, labels)
		r.metrics.MustRegister(of)
		of.WithLabelValues("oslo", "Pod").Set(10)
	}
	testkit.Equal(t, slices.DeleteFunc(r.load(), func(l Load) bool { return l.Cluster == "" }), []Load{
		{Cluster: "oslo", What: "bytes in memory", Rehearsed: 10, Running: 120},
		{Cluster: "oslo", What: "bytes of Pod", Rehearsed: 10, Running: 100},
		{Cluster: "oslo", What: "requests", Rehearsed: 10, Running: 7},
	}, "the load")
}

// A Cluster that is left out for one label takes no place of its other label.
func TestSample(t *testing.T) {
	t.Parallel()
	var all []hubv1.Cluster
	for _, of := range []string{"a-x", "b-x", "c-y", "d-y"} {
		one := hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: of, Labels: map[string]string{"tier": of[2:], "region": "eu"}}}
		if of == "d-y" {
			one.Labels["region"] = "us"
		}
		all = append(all, one)
	}
	r := &rehearsal{Options: Options{PerLabel: map[string]int{"region": 1, "tier": 1}}}
	var names []string
	for _, one := range r.sample(all) {
		names = append(names, one.Name)
	}
	testkit.Equal(t, names, []string{"a-x", "d-y"}, "one of each region and tier")
}
