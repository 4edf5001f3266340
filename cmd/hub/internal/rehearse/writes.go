// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
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
	info    requestinfo.Info
	method  string
	isPatch bool // it asks for some fields; others ask for all
	many    bool
	proven  bool // a delete with evidence, which no limit holds
	print   [sha256.Size]byte
	path    string  // of the object, or of a subresource that can be read; empty for a collection or a generated name
	read    url.URL // the same with its server
	name    string  // of the object
	before  map[string]any
	blind   bool // the account may not read it
}

// object is what is known of a key.
type object struct {
	info     requestinfo.Info
	read     url.URL
	version  string // of the live object at the last write
	before   map[string]any
	after    map[string]any
	changes  map[string]change // by their paths
	creates  bool
	deletes  []string // the names of deleted objects, several for a collection
	proven   bool
	finalize bool // finalizers would stop the delete
	other    bool // the answer is not the object
	prints   map[[sha256.Size]byte]answer
	last     *answer
	sent     int
	stopped  bool
}

func writeOf(r *http.Request, info requestinfo.Info, sent []byte) (*write, error) {
	body, metadata, err := decode(r.Header.Get("Content-Type"), sent)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, info, err)
	}
	w := &write{info: info, method: r.Method, path: r.URL.Path}
	w.module = registry.ModuleOf(r.Context())
	w.manager = cmp.Or(r.URL.Query().Get("fieldManager"), "-")
	w.isPatch = r.Method == http.MethodPatch && r.Header.Get("Content-Type") != "application/apply-patch+yaml"
	w.deletes = r.Method == http.MethodDelete || info.Subresource == "eviction"
	w.many = r.Method == http.MethodDelete && info.Name == ""
	_, w.proven = deletes.EvidenceOf(r.Context())
	switch info.Subresource {
	case "", "scale":
	default:
		w.path = strings.TrimSuffix(w.path, "/"+info.Subresource)
	}
	switch {
	case w.many:
		w.path = ""
	case info.Name != "":
	case metadata.Name != "":
		w.info.Name = metadata.Name
		w.path += "/" + metadata.Name
	default:
		w.info.Name, w.path = metadata.GenerateName+"* (a generated name"+owner(metadata)+")", ""
	}
	w.name, w.what = w.info.Name, describe(w.info)
	query := r.URL.Query()
	query.Del("dryRun")
	w.print = sha256.Sum256([]byte(r.Method + r.URL.Path + query.Encode() + string(withoutTimes(body))))
	return w, nil
}

func owner(m metav1.ObjectMeta) string {
	for _, one := range m.OwnerReferences {
		return " of " + one.Kind + " " + one.Name
	}
	return ""
}

// decode returns the JSON of a body that may be protobuf.
func decode(form string, sent []byte) ([]byte, metav1.ObjectMeta, error) {
	var of metav1.PartialObjectMetadata
	if len(sent) == 0 {
		return nil, of.ObjectMeta, nil
	}
	if strings.HasPrefix(form, runtime.ContentTypeProtobuf) {
		decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil)
		if err != nil { // A kind that client-go lacks has at least metadata.
			_, err = wire.Decode(form, sent, &of)
			return sent, of.ObjectMeta, err
		}
		if sent, err = json.Marshal(decoded); err != nil {
			return nil, of.ObjectMeta, err
		}
	}
	_ = json.Unmarshal(sent, &of) // A JSON patch is a list, and has no metadata.
	return sent, of.ObjectMeta, nil
}

// withoutTimes replaces what looks like a time: heartbeats are no different write.
func withoutTimes(body []byte) []byte {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return body
	}
	text, err := json.Marshal(timeless(value))
	if err != nil {
		return body
	}
	return text
}

func timeless(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			v[name] = timeless(one)
		}
	case []any:
		for i := range v {
			v[i] = timeless(v[i])
		}
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "a time"
		}
	}
	return value
}

func (w *write) finding(class Class, detail string) Finding {
	return Finding{Module: w.module, Class: class, Object: w.what, Detail: detail}
}

// known returns the answer to a write that repeats another one at the same version, or that a bound stops.
func (rec *recorder) known(w *write) *answer {
	rec.mu.Lock()
	o := rec.objects[w.key]
	if o == nil {
		o = &object{info: w.info, read: w.read, changes: map[string]change{}}
		rec.objects[w.key] = o
	}
	if version := versionOf(w.before); o.prints == nil || o.version != version {
		o.version, o.prints = version, map[[sha256.Size]byte]answer{}
	}
	again, repeats := o.prints[w.print]
	if repeats {
		rec.mu.Unlock()
		return &again
	}
	rec.latest = time.Now()
	rec.writes++
	o.sent++
	detail, class := "", Stopped
	switch {
	case len(o.prints) >= maxDifferent:
		class, detail = NeverTheSame, fmt.Sprintf("more than %d different writes at one version of the object", maxDifferent)
	case o.sent > maxOfObject:
		detail = fmt.Sprintf("more than %d writes", maxOfObject)
	case rec.writes > maxOfApp:
		detail = fmt.Sprintf("more than %d writes of one app", maxOfApp)
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
	if a.status >= http.StatusMultipleChoices {
		rec.refused(w, a)
		return
	}
	after, isObject := a.object()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	o := rec.objects[w.key]
	o.read, o.last, o.before, o.proven = w.read, &a, w.before, w.proven
	o.prints[w.print] = a
	switch {
	case w.many:
		o.deletes = namesIn(after)
	case w.deletes:
		o.deletes = []string{w.info.Name}
		finalizers, _ := metadataOf(w.before)["finalizers"].([]any)
		o.finalize = len(finalizers) > 0
	case !isObject || w.before != nil && after["kind"] != w.before["kind"]:
		o.other = true
	default:
		o.wants(w, after)
		if w.before == nil {
			rec.creates(w, after)
		}
	}
}

// wants replaces what was wanted before, but for a patch, which adds to it. What a replica reports of rules of sync is no difference: this
// one follows them only since a moment.
func (o *object) wants(w *write, after map[string]any) {
	if w.info.Group == hubv1.GroupName && w.info.Resource == "syncrules" && w.info.Subresource == "status" {
		return
	}
	o.creates, o.after = w.before == nil, after
	if !w.isPatch {
		o.changes = map[string]change{}
	}
	for _, c := range compare(w.before, after) {
		o.changes[c.String()] = c
	}
}

func (rec *recorder) creates(w *write, after map[string]any) {
	if w.path == "" {
		return
	}
	rec.made[identity(w.info)] = true
	if uid, _ := metadataOf(after)["uid"].(string); uid != "" {
		rec.uids[uid] = "uid of " + strings.TrimPrefix(w.info.Namespace+"/"+w.info.Name, "/")
	}
}

func (rec *recorder) refused(w *write, a answer) {
	rec.mu.Lock()
	o := rec.objects[w.key]
	o.last, o.prints[w.print] = &a, a
	rec.mu.Unlock()
	reason, _ := a.reason()
	switch a.status {
	case http.StatusNotFound:
		if w.deletes {
			return // It is gone, which is no change.
		}
		if !rec.missing(w.info, w.module) {
			rec.note(w.finding(Errors, "not found"))
		}
	case http.StatusForbidden:
		rec.note(w.finding(Refused, "forbidden: a permission, a policy or a webhook"))
	case http.StatusBadRequest:
		rec.note(w.finding(Refused, "bad request: it is invalid, or a webhook does not support dry runs"))
	default:
		rec.note(w.finding(Errors, fmt.Sprintf("%d %s", a.status, cmp.Or(reason, http.StatusText(a.status)))))
	}
}

func (a answer) object() (map[string]any, bool) {
	var found map[string]any
	if a.status >= http.StatusMultipleChoices || json.Unmarshal(a.body, &found) != nil {
		return nil, false
	}
	return found, found["kind"] != "Status"
}

func (a answer) reason() (string, error) {
	var status metav1.Status
	err := json.Unmarshal(a.body, &status)
	return string(status.Reason), err
}

func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

func versionOf(object map[string]any) string {
	version, _ := metadataOf(object)["resourceVersion"].(string)
	return version
}

// namesIn returns the names in a list.
func namesIn(list map[string]any) []string {
	items, _ := list["items"].([]any)
	var names []string
	for _, one := range items {
		item, _ := one.(map[string]any)
		metadata := metadataOf(item)
		name, _ := metadata["name"].(string)
		if namespace, _ := metadata["namespace"].(string); namespace != "" {
			name = namespace + "/" + name
		}
		names = append(names, name)
	}
	return names
}
