// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	made     map[string]bool   // objects of which only a dry run knows, as group/resource/namespace/name
	uids     map[string]string // of these objects, with their names
	findings map[Finding]bool
	cost     map[string]Cost // by verb and kind
	writes   int
	latest   time.Time // when a write came that was not a repetition
}

func newRecorder(cluster string, inHub bool) *recorder {
	return &recorder{
		cluster: cluster, inHub: inHub, objects: map[key]*object{}, made: map[string]bool{}, uids: map[string]string{},
		findings: map[Finding]bool{}, cost: map[string]Cost{},
	}
}

// over returns the transport of one of the clients of the app.
func (rec *recorder) over(next http.RoundTripper) http.RoundTripper { return &recording{rec, next} }

type recording struct {
	*recorder
	next http.RoundTripper
}

// RoundTrip answers events itself: they are no part of what a hub wants, and there is one for each try.
func (w *recording) RoundTrip(r *http.Request) (*http.Response, error) {
	info := requestinfo.Of(r.URL.Path)
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if info.Resource == "events" && !isRead {
		return echo(r)
	}
	dry, err := observe.AsDryRun(r)
	if err == nil && info.Subresource == "token" {
		err = fmt.Errorf("%s %s: a token is issued in a dry run, too: %w", r.Method, info, observe.ErrObserved)
	}
	if err != nil {
		w.note(Finding{Module: registry.ModuleOf(r.Context()), Class: Refused, Object: describe(info), Detail: r.Method + " cannot be a dry run"})
		closeBody(r)
		return nil, err
	}
	if isReview := strings.HasSuffix(info.Group, ".k8s.io") && strings.HasSuffix(info.Resource, "reviews"); dry == r || isReview {
		return w.read(r, info)
	}
	return w.write(dry, info)
}

func (w *recording) read(r *http.Request, info requestinfo.Info) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	verb := strings.ToLower(r.Method)
	switch {
	case r.URL.Query().Get("watch") == "true":
		verb = "watch"
	case info.IsCollection() && r.Method == http.MethodGet:
		verb = "list"
	}
	if response.StatusCode == http.StatusNotFound {
		w.missing(info, "")
	}
	label := verb + " " + info.String()
	w.spend(label, 1, 0)
	response.Body = &countedBody{ReadCloser: response.Body, add: func(n int) { w.spend(label, 0, int64(n)) }}
	return response, nil
}

func (rec *recorder) spend(label string, requests, size int64) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	sum := rec.cost[label]
	rec.cost[label] = Cost{Requests: sum.Requests + requests, Bytes: sum.Bytes + size}
}

type countedBody struct {
	io.ReadCloser
	add func(int)
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.add(n)
	return n, err
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
	if err := w.lookBefore(r, one); err != nil {
		return nil, err
	}
	w.spend(strings.ToLower(r.Method)+" "+info.String(), 1, int64(len(sent)))
	if known := w.known(one); known != nil {
		return known.response(r), nil
	}
	r.Header.Set("Accept", "application/json")
	response, err := w.next.RoundTrip(r)
	if err != nil {
		if r.Context().Err() == nil {
			w.note(one.finding(Errors, "the request failed"))
		}
		return nil, err
	}
	got, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer to a dry run: %w", err)
	}
	answered := answer{status: response.StatusCode, header: response.Header, body: got}
	w.answered(one, answered)
	return answered.response(r), nil
}

// maxBody is larger than any object, and than the answer of most deletes of collections.
const maxBody = 16 << 20

// lookBefore reads the object as it is.
func (w *recording) lookBefore(r *http.Request, one *write) error {
	if one.path == "" {
		return nil
	}
	url := *r.URL
	url.Path, url.RawQuery = one.path, ""
	one.read = url
	found, err := look(r.Context(), w.next, one)
	if err != nil {
		return err
	}
	if one.before, _ = found.object(); found.status == http.StatusForbidden {
		one.blind = true
		w.note(one.finding(Errors, "the account may not read it, so the difference is not known"))
	}
	return nil
}

// look reads an object. Who may write it need not be allowed to get it: then a list or an empty patch reads it.
func look(ctx context.Context, by http.RoundTripper, one *write) (found answer, err error) {
	found, err = ask(ctx, by, one.read, "")
	if err != nil || found.status != http.StatusForbidden {
		return found, err
	}
	of := one.read
	if collection, isObject := strings.CutSuffix(of.Path, "/"+one.name); isObject {
		of.Path, of.RawQuery = collection, "fieldSelector=metadata.name%3D"+one.name
		if found, err = ask(ctx, by, of, ""); err != nil || found.status != http.StatusForbidden {
			return found.only(), err
		}
	}
	of = one.read
	of.RawQuery = "dryRun=" + metav1.DryRunAll
	return ask(ctx, by, of, "{}")
}

// ask reads, or patches with a body.
func ask(ctx context.Context, by http.RoundTripper, url url.URL, body string) (answer, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPatch
	}
	r, err := http.NewRequestWithContext(ctx, method, url.String(), strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Accept", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := by.RoundTrip(r)
	if err != nil {
		return answer{}, fmt.Errorf("read %s beside a dry run: %w", url.Path, err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return answer{status: response.StatusCode, body: got}, err
}

// only returns the only object of a list.
func (a answer) only() answer {
	var list struct {
		Kind, APIVersion string
		Items            []map[string]any
	}
	if a.status >= http.StatusMultipleChoices || json.Unmarshal(a.body, &list) != nil {
		return a
	}
	if len(list.Items) == 0 {
		return answer{status: http.StatusNotFound}
	}
	one := list.Items[0]
	one["kind"], one["apiVersion"] = strings.TrimSuffix(list.Kind, "List"), list.APIVersion
	body, err := json.Marshal(one)
	if err != nil {
		return answer{status: http.StatusInternalServerError}
	}
	return answer{status: http.StatusOK, body: body}
}

func (rec *recorder) note(f Finding) {
	f.Cluster, f.InHub = rec.cluster, rec.inHub
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.findings) < maxFindings {
		rec.findings[f] = true
	}
}

// maxFindings of an app about an API server are enough to see what is wrong.
const maxFindings = 1000

// missing notes that an object was not found which a dry run has made, or whose namespace one has made.
func (rec *recorder) missing(info requestinfo.Info, module string) (explained bool) {
	rec.mu.Lock()
	on := ""
	switch {
	case rec.made[identity(info)]:
		on = describe(requestinfo.Info{Group: info.Group, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name})
	case rec.made[identity(requestinfo.Info{Resource: "namespaces", Name: info.Namespace})]:
		on = "namespaces " + info.Namespace
	}
	rec.mu.Unlock()
	if on != "" {
		rec.note(Finding{Module: module, Class: StopsHere, Object: describe(info), Detail: "depends on " + on + ", which was not made"})
	}
	return on != ""
}

func identity(i requestinfo.Info) string {
	return i.Group + "/" + i.Resource + "/" + i.Namespace + "/" + i.Name
}

func describe(i requestinfo.Info) string {
	switch {
	case i.Name == "" && i.Namespace != "":
		return i.String() + " in " + i.Namespace
	case i.Namespace != "":
		return i.String() + " " + i.Namespace + "/" + i.Name
	}
	return strings.TrimSpace(i.String() + " " + i.Name)
}

var errTooLarge = errors.New("the body is larger than an object can be")

func takeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	sent, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	r.Body.Close()
	if err == nil && len(sent) == maxBody {
		err = errTooLarge
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	return sent, err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// echo answers a create or patch with what was sent.
func echo(r *http.Request) (*http.Response, error) {
	sent, err := takeBody(r)
	if err != nil {
		return nil, err
	}
	form := r.Header.Get("Content-Type")
	if strings.HasSuffix(form, "patch+json") {
		form = "application/json"
	}
	return answer{status: http.StatusCreated, header: http.Header{"Content-Type": {form}}, body: sent}.response(r), nil
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
