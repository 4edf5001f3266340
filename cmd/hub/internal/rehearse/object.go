// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	maxOfApp     = 10_000 // of an app to one API server
)

// key is what a field manager writes: an object or its subresource. What it deletes has a key of its own.
type key struct {
	module, what, manager string
	deletes               bool
}

// write is one request.
type write struct {
	key
	info   requestinfo.Info
	adds   bool    // it asks for some fields more; others ask for all
	proven bool    // a delete with evidence, which no limit holds
	print  string  // what it asks for
	url    url.URL // of the object, or of a subresource that can be read; without a path for a collection or a generated name
	before map[string]any
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

func writeOf(r *http.Request, info requestinfo.Info, sent []byte) (*write, error) {
	body, metadata, err := decode(r.Header.Get("Content-Type"), sent)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, info, err)
	}
	query := r.URL.Query()
	query.Del("dryRun")
	w := &write{info: info, url: *r.URL, print: r.Method + r.URL.Path + query.Encode() + aTime.ReplaceAllString(body, `"a time"`)}
	w.module = registry.ModuleOf(r.Context())
	w.manager = cmp.Or(query.Get("fieldManager"), "-")
	w.adds = r.Method == http.MethodPatch && r.Header.Get("Content-Type") != "application/apply-patch+yaml"
	w.deletes = r.Method == http.MethodDelete || info.Subresource == "eviction"
	_, w.proven = deletes.EvidenceOf(r.Context())
	w.url.RawQuery = ""
	if info.Subresource != "scale" {
		w.url.Path = strings.TrimSuffix(w.url.Path, "/"+info.Subresource)
	}
	switch {
	case info.Name != "":
	case r.Method == http.MethodDelete:
		w.url.Path = ""
	case metadata.Name != "":
		w.info.Name = metadata.Name
		w.url.Path += "/" + metadata.Name
	default:
		owner := ""
		for _, one := range metadata.OwnerReferences[:min(len(metadata.OwnerReferences), 1)] {
			owner = " of " + one.Kind + " " + one.Name
		}
		w.info.Name, w.url.Path = metadata.GenerateName+"* (a generated name"+owner+")", ""
	}
	w.what = w.info.Target()
	return w, nil
}

// aTime is a heartbeat, which makes no different write.
var aTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"`)

// decode returns the JSON of a body that may be protobuf.
func decode(form string, sent []byte) (string, metav1.ObjectMeta, error) {
	var of metav1.PartialObjectMetadata
	if strings.HasPrefix(form, runtime.ContentTypeProtobuf) {
		decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil)
		if err != nil { // A kind that client-go lacks has at least metadata.
			_, err = wire.Decode(form, sent, &of)
			return string(sent), of.ObjectMeta, err
		}
		if sent, err = json.Marshal(decoded); err != nil {
			return "", of.ObjectMeta, err
		}
	}
	_ = json.Unmarshal(sent, &of) // A JSON patch is a list, and has no metadata.
	return string(sent), of.ObjectMeta, nil
}

func (w *write) finding(class Class, detail string) Finding {
	return Finding{Module: w.module, Class: class, Object: w.what, Detail: detail}
}

// known returns the answer to a write that repeats another one at the same version, or that a bound stops.
func (rec *recorder) known(w *write) *answer {
	rec.mu.Lock()
	o := rec.objects[w.key]
	if o == nil {
		o = &object{wants: leaves{}}
		if rec.writes <= maxOfApp {
			rec.objects[w.key] = o
		}
	}
	if o.answers == nil || metadataOf(o.before)["resourceVersion"] != metadataOf(w.before)["resourceVersion"] {
		o.answers = map[string]answer{}
	}
	o.write = *w
	again, repeats := o.answers[w.print]
	if repeats {
		rec.mu.Unlock()
		return &again
	}
	rec.latest = time.Now()
	rec.writes++
	o.sent++
	detail, class := "", Stopped
	switch {
	case len(o.answers) >= maxDifferent:
		class, detail = NeverTheSame, fmt.Sprintf("more than %d different writes at one version of the object", maxDifferent)
	case o.sent > maxOfObject:
		detail = fmt.Sprintf("more than %d writes", maxOfObject)
	case rec.writes > maxOfApp:
		detail = fmt.Sprintf("more than %d writes of one app", maxOfApp)
		w.what = ""
	}
	last := o.last
	o.stopped = o.stopped || detail != ""
	rec.mu.Unlock()
	if detail == "" {
		return nil
	}
	rec.note(w.finding(class, detail))
	if last == nil {
		last = &answer{status: http.StatusTooManyRequests, header: http.Header{}}
	}
	return last
}

// answered notes the difference that a dry run would make.
func (rec *recorder) answered(w *write, a answer) {
	rec.mu.Lock()
	o := rec.objects[w.key]
	o.last, o.answers[w.print] = &a, a
	rec.mu.Unlock()
	refusal := rec.refused(w, a)
	after, isObject := a.object()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	o.refusal = refusal
	switch {
	case a.status >= http.StatusMultipleChoices:
	case w.deletes && w.info.Name == "":
		o.deleted = a.names()
	case w.deletes:
		o.deleted = []string{w.info.Name}
	case w.blind || !isObject || w.before != nil && after["kind"] != w.before["kind"]:
		o.other = true
	default:
		o.want(w, after)
		if w.before == nil && w.url.Path != "" {
			rec.made[w.what] = true
			if uid, _ := metadataOf(after)["uid"].(string); uid != "" {
				rec.uids[uid] = "uid of " + strings.TrimPrefix(w.info.Namespace+"/"+w.info.Name, "/")
			}
		}
	}
}

// want replaces what was wanted before, or adds to it.
func (o *object) want(w *write, after map[string]any) {
	if !w.adds {
		o.wants = leaves{}
	}
	was, is := leavesOf(w.before), leavesOf(after)
	for _, path := range differ(was, is) {
		o.wants[path] = is[path]
	}
}

func (rec *recorder) refused(w *write, a answer) *Finding {
	var f Finding
	switch {
	case a.status < http.StatusMultipleChoices, a.status == http.StatusNotFound && w.deletes: // What is gone is no change.
		return nil
	case a.status == http.StatusConflict: // The running hub was quicker. If it stays, the reconciles of the second round fail.
		return nil
	case a.status == http.StatusNotFound:
		if rec.missing(w.info, w.module) {
			return nil
		}
		f = w.finding(Errors, "not found")
	case a.status == http.StatusForbidden:
		f = w.finding(Refused, "forbidden: a permission, a policy or a webhook")
	case a.status == http.StatusBadRequest:
		f = w.finding(Refused, "bad request: it is invalid, or a webhook does not support dry runs")
	default:
		var status metav1.Status
		_ = json.Unmarshal(a.body, &status) // The code says it, too.
		f = w.finding(Errors, fmt.Sprintf("%d %s", a.status, cmp.Or(string(status.Reason), http.StatusText(a.status))))
	}
	return &f
}

func (a answer) object() (map[string]any, bool) {
	var found map[string]any
	if a.status >= http.StatusMultipleChoices || json.Unmarshal(a.body, &found) != nil {
		return nil, false
	}
	return found, found["kind"] != "Status"
}

func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

func (a answer) names() (names []string) {
	var list metav1.PartialObjectMetadataList
	_ = json.Unmarshal(a.body, &list) // It may be a Status, of no objects.
	for _, one := range list.Items {
		names = append(names, strings.TrimPrefix(one.Namespace+"/"+one.Name, "/"))
	}
	return names
}
