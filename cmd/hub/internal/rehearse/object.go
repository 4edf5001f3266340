// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/internal/wire"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// The bounds of writes. What exceeds them gets the last answer again.
const (
	maxDifferent = 5      // of an object at one version; then it is NeverTheSame
	maxOfObject  = 20     // of an object
	maxOfApp     = 10_000 // of an app
)

// key is what a field manager writes: an object or its subresource. What it deletes has a key of its own.
type key struct {
	place
	module, manager string
	deletes         bool
}

// write is one request.
type write struct {
	key
	info   requestinfo.Info
	adds   bool    // it asks for some fields more; others ask for all
	proven bool    // a delete with evidence, which no limit holds
	print  string  // what it asks for
	url    url.URL // of the object, or of a subresource that can be read; without a path for a collection or a generated name
	before unstructured.Unstructured
	blind  bool // before is not known
}

// object is what was asked for a key.
type object struct {
	write                     // the last one
	answers map[string]answer // by their prints, at the version of before
	last    *answer
	sent    int
	stopped bool
	wants   leaves   // what the live object would have to have; an empty value is none
	deleted []string // the names of deleted objects, several for a collection
	other   bool     // the answer is not the object
	refusal *Finding // why the last write was refused; nil if it was not
}

func (w *recorder) writeOf(r *http.Request, info requestinfo.Info) (*write, error) {
	sent, err := takeBody(r)
	if err != nil {
		return nil, err
	}
	form, query := r.Header.Get("Content-Type"), r.URL.Query()
	query.Del("dryRun")
	one := &write{
		info: info, url: *r.URL,
		adds:  r.Method == http.MethodPatch && form != "application/apply-patch+yaml",
		print: r.Method + r.URL.Path + query.Encode() + aTime.ReplaceAllString(inJSON(form, sent), `"a time"`),
	}
	_, one.proven = deletes.EvidenceOf(r.Context())
	one.url.RawQuery = ""
	if info.Subresource != "scale" {
		one.url.Path = strings.TrimSuffix(one.url.Path, "/"+info.Subresource)
	}
	switch {
	case info.Name != "":
	case r.Method == http.MethodDelete:
		one.url.Path = ""
	default:
		one.nameIn(form, sent)
	}
	one.key = key{
		place: place{w.inHub, one.info.Target()}, module: registry.ModuleOf(r.Context()), manager: cmp.Or(query.Get("fieldManager"), "-"),
		deletes: r.Method == http.MethodDelete || info.Subresource == "eviction",
	}
	return one, nil
}

func takeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	sent, err := io.ReadAll(r.Body)
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(sent))
	return sent, err
}

// nameIn is for an object that is created.
func (w *write) nameIn(form string, sent []byte) {
	var of metav1.PartialObjectMetadata
	_, _ = wire.Decode(form, sent, &of) // What is no object has no name.
	if of.Name != "" {
		w.info.Name = of.Name
		w.url.Path += "/" + of.Name
		return
	}
	owner := ""
	for _, one := range of.OwnerReferences[:min(len(of.OwnerReferences), 1)] {
		owner = " of " + one.Kind + " " + one.Name
	}
	w.info.Name, w.url.Path = of.GenerateName+"* (a generated name"+owner+")", ""
}

// aTime is a heartbeat, which makes no different write.
var aTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"`)

// inJSON also returns a body in protobuf, if client-go knows its kind.
func inJSON(form string, sent []byte) string {
	if strings.HasPrefix(form, runtime.ContentTypeProtobuf) {
		if decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil); err == nil {
			return text(decoded)
		}
	}
	return string(sent)
}

func (w *write) finding(class Class, detail string) Finding {
	return Finding{InHub: w.inHub, Module: w.module, Class: class, Object: w.what, Detail: detail}
}

// known returns the answer to a write that repeats another one at the same version, or that a bound stops.
func (w *recorder) known(one *write) *answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[one.key]
	if o == nil {
		o = &object{wants: leaves{}}
		if w.writes <= maxOfApp {
			w.objects[one.key] = o
		}
	}
	if o.answers == nil || o.before.GetResourceVersion() != one.before.GetResourceVersion() {
		o.answers = map[string]answer{}
	}
	o.write = *one
	if again, repeats := o.answers[one.print]; repeats {
		return &again
	}
	w.latest = time.Now()
	w.writes++
	o.sent++
	f := one.finding(Stopped, "")
	switch {
	case len(o.answers) >= maxDifferent:
		f.Class, f.Detail = NeverTheSame, fmt.Sprintf("more than %d different writes at one version of the object", maxDifferent)
	case o.sent > maxOfObject:
		f.Detail = fmt.Sprintf("more than %d writes", maxOfObject)
	case w.writes > maxOfApp:
		f.Object, f.Detail = "", fmt.Sprintf("more than %d writes of one app", maxOfApp)
	default:
		return nil
	}
	o.stopped = true
	w.add(f)
	return cmp.Or(o.last, &answer{status: http.StatusTooManyRequests, header: http.Header{}})
}

// answered notes the difference that a dry run would make.
func (w *recorder) answered(one *write, a answer, refusal *Finding) {
	after := a.object()
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[one.key]
	o.last, o.answers[one.print], o.refusal = &a, a, refusal
	switch {
	case a.status >= http.StatusMultipleChoices:
	case one.deletes && one.info.Name == "":
		o.deleted = a.names()
	case one.deletes:
		o.deleted = []string{one.info.Name}
	case one.blind || after.Object == nil || one.before.Object != nil && after.GetKind() != one.before.GetKind():
		o.other = true
	default:
		if !one.adds {
			o.wants = leaves{}
		}
		o.wants.change(leavesOf(one.before), leavesOf(after))
		if one.before.Object == nil && one.url.Path != "" {
			w.made[one.place] = true
			if uid := string(after.GetUID()); uid != "" {
				w.uids[uid] = "uid of " + strings.TrimPrefix(one.info.Namespace+"/"+one.info.Name, "/")
			}
		}
	}
}

// refusal returns nil for what says nothing about a version.
func (w *recorder) refusal(one *write, a answer) *Finding {
	f := one.finding(Refused, "")
	switch {
	case a.status < http.StatusMultipleChoices, a.status == http.StatusNotFound && one.deletes: // What is gone is no change.
		return nil
	case a.status == http.StatusConflict: // The running hub was quicker. If it stays, the reconciles of the second round fail.
		return nil
	case a.status == http.StatusNotFound && w.isMissing(one.module, one.info):
		return nil
	case a.status == http.StatusForbidden:
		f.Detail = "forbidden: a permission, a policy or a webhook"
	case a.status == http.StatusBadRequest:
		f.Detail = "bad request: it is invalid, or a webhook does not support dry runs"
	default:
		var status metav1.Status
		_ = json.Unmarshal(a.body, &status) // The code says it, too.
		f.Class, f.Detail = Errors, fmt.Sprintf("%d %s", a.status, cmp.Or(string(status.Reason), http.StatusText(a.status)))
	}
	return &f
}
