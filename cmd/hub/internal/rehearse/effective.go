// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	maxNames = 20
	maxValue = 200
	maxField = 50
	readLive = 10 * time.Second
)

// effective returns the changes that the live objects do not have.
func (a *app) effective(ctx context.Context) (all []Change) {
	a.mu.Lock()
	objects, uids := make([]object, 0, len(a.objects)), maps.Clone(a.uids)
	for _, o := range a.objects { // Apps that are not at rest go on.
		one := *o
		one.wants = maps.Clone(o.wants)
		objects = append(objects, one)
	}
	a.mu.Unlock()
	for i := range objects {
		o := &objects[i]
		if o.refusal != nil {
			a.find(*o.refusal)
		}
		if len(o.wants)+len(o.deleted) == 0 && !o.other {
			continue // It is there already, or was refused.
		}
		c := Change{Cluster: a.name, InHub: o.inHub, Module: o.module, Object: o.what, of: &o.write}
		live, isKnown := a.now(ctx, o)
		if !isKnown {
			c.Note = "the object could not be read again"
		}
		if o.info.Group == hubv1.GroupName && o.info.Resource == "syncrules" && o.info.Subresource == "status" {
			a.problems(o, live)
		} else if o.changed(&c, live, uids) {
			all = append(all, c)
		}
	}
	return all
}

// now returns the live object, without content if there is none. If it cannot be read, it is as it was.
func (a *app) now(ctx context.Context, o *object) (live unstructured.Unstructured, isKnown bool) {
	if o.url.Path == "" {
		return live, true
	}
	by := a.remote
	if o.inHub {
		by = a.hub
	}
	ctx, cancel := context.WithTimeout(ctx, readLive)
	defer cancel()
	found, err := look(ctx, by, o.url, http.Header{})
	if err != nil || found.status >= http.StatusMultipleChoices && found.status != http.StatusNotFound {
		return o.before, false
	}
	return found.object(), true
}

// changed completes c, and reports whether there is a change.
func (o *object) changed(c *Change, live unstructured.Unstructured, uids map[string]string) bool {
	switch {
	case len(o.deleted) > 0 && o.url.Path != "":
		c.Action, c.Count = Delete, 1
		return live.Object != nil && live.GetDeletionTimestamp() == nil && live.GetUID() == o.before.GetUID()
	case len(o.deleted) > 0:
		c.Action, c.Count, c.Names = Delete, len(o.deleted), slices.Sorted(slices.Values(o.deleted))
		c.Names = c.Names[:min(len(c.Names), maxNames)]
	case o.other:
		c.Action = Request
	case o.before.Object == nil && live.Object == nil:
		c.Action = Create
	default:
		return o.changes(c, live, uids)
	}
	return true
}

// changes completes c with the fields that the live object does not have, or with their owners only.
func (o *object) changes(c *Change, live unstructured.Unstructured, uids map[string]string) bool {
	now, paths := leavesOf(live), []string{}
	for path, wanted := range o.wants {
		if now[path] != wanted {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	c.Action = Own
	isOwner := func(path string) bool { return strings.HasPrefix(path, managedFields) }
	if fields := slices.DeleteFunc(slices.Clone(paths), isOwner); len(fields) > 0 {
		c.Action, paths = Update, fields // Owners follow from the other fields.
	}
	if len(paths) > maxField {
		c.Note = strconv.Itoa(len(paths)) + " fields"
	}
	for _, path := range paths[:min(len(paths), maxField)] {
		f := Field{Path: path, From: o.value(path, now[path], uids), To: o.value(path, o.wants[path], uids)}
		switch {
		case o.stopped:
			f.To = "(another value each time)"
		case f.To == f.From: // What differs is not shown.
			f.To = "(another value)"
		}
		c.Fields = append(c.Fields, f)
	}
	return len(paths) > 0
}

// problems finds those of a rule of sync that the running hub does not have. Its status is no difference otherwise, since a rehearsal
// follows the rule only since a moment.
func (a *app) problems(o *object, live unstructured.Unstructured) {
	for p := range problemsIn(o.last.object()).Difference(problemsIn(live)) {
		a.find(o.finding(NotRunning, state.Sanitize(fmt.Sprintf("%s in %s: %s", p.Reason, p.Cluster, p.Object))))
	}
}

func problemsIn(object unstructured.Unstructured) sets.Set[hubv1.SyncProblem] {
	var rule hubv1.SyncRule
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &rule) // What is no rule has no problems.
	all := sets.New[hubv1.SyncProblem]()
	for _, replica := range rule.Status.Replicas {
		all.Insert(replica.Problems...)
	}
	return all
}

// value writes a value for people, but nothing of one of a Secret, not even a hash: it would confirm a guess.
func (o *object) value(path, value string, uids map[string]string) string {
	isSecret := o.info.Group == "" && o.info.Resource == "secrets"
	switch {
	case value == "":
		return "(none)"
	case strings.HasPrefix(path, managedFields):
		return "some fields"
	case isSecret && !strings.HasPrefix(path, "metadata.labels") && path != "type":
		return "(secret)"
	}
	for uid, name := range uids {
		value = strings.ReplaceAll(value, uid, name)
	}
	if value = state.Sanitize(value); len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "…"
	}
	return value
}
