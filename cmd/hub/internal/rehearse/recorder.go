// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/reconcilers/observe"
	"github.com/clusterfx/clusterfx/registry"
)

// recorder is the transport of one of the clients of an app, to the hub or to the remote.
type recorder struct {
	*app
	inHub bool
	next  http.RoundTripper
}

// RoundTrip makes each write a dry run. Events are no part of what a hub wants, and there is one for each try.
func (w *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	info := requestinfo.Of(r.URL.Path)
	isTest := r.URL.Query().Get("dryRun") == metav1.DryRunAll
	dry, err := observe.AsDryRun(r)
	if err == nil && info.Subresource == "token" {
		err = fmt.Errorf("%s %s: a token is issued in a dry run, too: %w", r.Method, info, observe.ErrObserved)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		w.note(Finding{Module: registry.ModuleOf(r.Context()), Class: Refused, Object: info.Target(), Detail: r.Method + " cannot be a dry run"})
		return nil, err
	}
	if dry != r && !isTest && !info.IsReview() && info.Resource != "events" {
		return w.write(dry, info)
	}
	response, err := w.next.RoundTrip(dry)
	if err == nil && response.StatusCode == http.StatusNotFound {
		w.isMissing(registry.ModuleOf(r.Context()), info)
	}
	return response, err
}

// write sends a dry run, between two looks at what is known of its object.
func (w *recorder) write(r *http.Request, info requestinfo.Info) (*http.Response, error) {
	one, err := w.writeOf(r, info)
	if err != nil {
		return nil, err
	}
	if one.url.Path != "" {
		found, err := look(r.Context(), w.next, one.url, r.Header)
		if err != nil {
			return nil, err
		}
		one.before = found.object()
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
	w.answered(one, got, w.refusal(one, got))
	return got.response(r), nil
}

func (w *recorder) note(f Finding) {
	f.InHub = w.inHub
	w.find(f)
}

// isMissing notes that an object was not found which a dry run has made, or whose namespace one has made.
func (w *recorder) isMissing(module string, info requestinfo.Info) bool {
	of := info
	of.Subresource = ""
	for _, on := range []string{of.Target(), requestinfo.Info{Resource: "namespaces", Name: info.Namespace}.Target()} {
		w.mu.Lock()
		isMade := w.made[place{w.inHub, on}]
		w.mu.Unlock()
		if isMade {
			w.note(Finding{Module: module, Class: StopsHere, Object: info.Target(), Detail: "depends on " + on + ", which was not made"})
			return true
		}
	}
	return false
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

// answer is a response that can be given again.
type answer struct {
	status int
	header http.Header
	body   []byte
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

func (a answer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
}

// object is without content for a Status, and for what is no object.
func (a answer) object() (o unstructured.Unstructured) {
	if a.status >= http.StatusMultipleChoices || json.Unmarshal(a.body, &o.Object) != nil || o.GetKind() == "Status" {
		return unstructured.Unstructured{}
	}
	return o
}

func (a answer) names() (names []string) {
	var list metav1.PartialObjectMetadataList
	_ = json.Unmarshal(a.body, &list) // It may be a Status, of no objects.
	for _, one := range list.Items {
		names = append(names, strings.TrimPrefix(one.Namespace+"/"+one.Name, "/"))
	}
	return names
}
