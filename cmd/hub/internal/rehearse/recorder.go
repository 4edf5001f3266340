// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/reconcilers/observe"
	"github.com/clusterfx/clusterfx/registry"
)

// recorder has what one app has asked of one API server: of its remote, or of the hub. Hub parts are the app without a name.
type recorder struct {
	cluster string
	inHub   bool
	live    http.RoundTripper // reads at the end, when the clients of the app have ended

	mu       sync.Mutex // protects the fields; not held for requests
	objects  map[key]*object
	made     map[string]bool   // objects of which only a dry run knows, and their namespaces, as described
	uids     map[string]string // of these objects, with their names
	findings map[Finding]bool
	writes   int
	latest   time.Time // when a write came that was not a repetition
}

func newRecorder(cluster string, inHub bool, live http.RoundTripper) *recorder {
	return &recorder{
		cluster: cluster, inHub: inHub, live: live, objects: map[key]*object{}, made: map[string]bool{}, uids: map[string]string{}, findings: map[Finding]bool{},
	}
}

// over returns the transport of one of the clients of the app.
func (rec *recorder) over(next http.RoundTripper) http.RoundTripper { return &recording{rec, next} }

type recording struct {
	*recorder
	next http.RoundTripper
}

// RoundTrip makes each write a dry run. Events are no part of what a hub wants, and there is one for each try.
func (w *recording) RoundTrip(r *http.Request) (*http.Response, error) {
	info := requestinfo.Of(r.URL.Path)
	module := registry.ModuleOf(r.Context())
	dry, err := observe.AsDryRun(r)
	if err == nil && info.Subresource == "token" {
		err = fmt.Errorf("%s %s: a token is issued in a dry run, too: %w", r.Method, info, observe.ErrObserved)
	}
	if err != nil {
		w.note(Finding{Module: module, Class: Refused, Object: info.Target(), Detail: r.Method + " cannot be a dry run"})
		closeBody(r)
		return nil, err
	}
	if isTest := r.URL.Query().Get("dryRun") == metav1.DryRunAll; dry == r || info.IsReview() || isTest || info.Resource == "events" {
		response, err := w.next.RoundTrip(dry)
		if err == nil && response.StatusCode == http.StatusNotFound {
			w.missing(info, module)
		}
		return response, err
	}
	return w.write(dry, info)
}

// write sends a dry run, between two looks at what is known of its object.
func (w *recording) write(r *http.Request, info requestinfo.Info) (*http.Response, error) {
	sent, err := takeBody(r)
	if err != nil {
		return nil, err
	}
	one, err := writeOf(r, info, sent)
	if err != nil {
		return nil, err
	}
	if one.url.Path != "" {
		found, err := look(r.Context(), w.next, one.url, r.Header)
		if err != nil {
			return nil, err
		}
		one.before, _ = found.object()
		if one.blind = found.status == http.StatusForbidden; one.blind {
			w.note(one.finding(Errors, "the account may not read it, so the difference is not known"))
		}
	}
	if known := w.known(one); known != nil {
		return known.response(r), nil
	}
	r.Header.Set("Accept", "application/json")
	got, err := ask(w.next, r)
	if err != nil {
		if r.Context().Err() == nil {
			w.note(one.finding(Errors, "the request failed"))
		}
		return nil, err
	}
	w.answered(one, got)
	return got.response(r), nil
}

// look reads an object as the sender of the header: in the hub, credentials are no part of the transport. A module that has a cache may
// list objects, and often not get them.
func look(ctx context.Context, by http.RoundTripper, at url.URL, header http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return answer{}, err
	}
	r.Header = header.Clone()
	r.Header.Del("Content-Type")
	r.Header.Set("Accept", "application/json")
	got, err := ask(by, r)
	if err != nil || got.status != http.StatusForbidden {
		return got, err
	}
	folder, name := path.Split(at.Path)
	r.URL.Path, r.URL.RawQuery = strings.TrimSuffix(folder, "/"), url.Values{"fieldSelector": {"metadata.name=" + name}}.Encode()
	listed, err := ask(by, r)
	var list unstructured.UnstructuredList
	switch {
	case err != nil || listed.status != http.StatusOK || list.UnmarshalJSON(listed.body) != nil:
	case len(list.Items) == 0:
		got.status = http.StatusNotFound
	default:
		got.status = http.StatusOK
		got.body, err = list.Items[0].MarshalJSON()
	}
	return got, err
}

// maxBody is larger than any object, and than the answer of most deletes of collections.
const maxBody = 16 << 20

func ask(by http.RoundTripper, r *http.Request) (answer, error) {
	response, err := by.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return answer{}, fmt.Errorf("read an answer for the rehearsal: %w", err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: got}, nil
}

// maxFindings of an app about an API server are enough to see what is wrong.
const maxFindings = 1000

func (rec *recorder) note(f Finding) {
	f.Cluster, f.InHub = rec.cluster, rec.inHub
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.findings) < maxFindings {
		rec.findings[f] = true
	}
}

// missing notes that an object was not found which a dry run has made, or whose namespace one has made.
func (rec *recorder) missing(info requestinfo.Info, module string) (explained bool) {
	of := info
	of.Subresource = ""
	for _, on := range []string{of.Target(), requestinfo.Info{Resource: "namespaces", Name: info.Namespace}.Target()} {
		rec.mu.Lock()
		isMade := rec.made[on]
		rec.mu.Unlock()
		if isMade {
			rec.note(Finding{Module: module, Class: StopsHere, Object: info.Target(), Detail: "depends on " + on + ", which was not made"})
			return true
		}
	}
	return false
}

func takeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	sent, err := io.ReadAll(r.Body)
	closeBody(r)
	r.Body = io.NopCloser(bytes.NewReader(sent))
	return sent, err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// answer is a response that can be given again.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
}
