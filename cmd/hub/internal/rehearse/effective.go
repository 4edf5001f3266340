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

	"k8s.io/apimachinery/pkg/runtime"

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
func (rec *recorder) effective(ctx context.Context) []Change {
	rec.mu.Lock()
	objects, uids := make([]object, 0, len(rec.objects)), maps.Clone(rec.uids)
	for _, o := range rec.objects { // Apps that are not at rest go on.
		one := *o
		one.wants = maps.Clone(o.wants)
		objects = append(objects, one)
	}
	rec.mu.Unlock()
	var all []Change
	for i := range objects {
		o := &objects[i]
		if o.refusal != nil {
			rec.note(*o.refusal)
		}
		if len(o.wants)+len(o.deleted) == 0 && !o.other {
			continue // It is there already, or was refused.
		}
		c := Change{Cluster: rec.cluster, InHub: rec.inHub, Module: o.module, Object: o.what, of: o}
		live, isKnown := rec.now(ctx, o)
		if !isKnown {
			c.Note = "the object could not be read again"
		}
		if o.isRuleStatus() {
			rec.problems(o, live)
		} else if o.changed(&c, live, uids) {
			all = append(all, c)
		}
	}
	return all
}

// now returns the live object; nil if there is none. If it cannot be read, it is as it was.
func (rec *recorder) now(ctx context.Context, o *object) (map[string]any, bool) {
	if o.url.Path == "" {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, readLive)
	defer cancel()
	found, err := look(ctx, rec.live, o.url, http.Header{})
	if err != nil || found.status >= http.StatusMultipleChoices && found.status != http.StatusNotFound {
		return o.before, false
	}
	live, _ := found.object()
	return live, true
}

// changed completes c, and reports whether there is a change.
func (o *object) changed(c *Change, live map[string]any, uids map[string]string) bool {
	switch {
	case len(o.deleted) > 0:
		return o.isDeleted(c, live)
	case o.other:
		c.Action = Request
		return true
	case o.before == nil && live == nil:
		c.Action = Create
		return true
	}
	now, paths := leavesOf(live), []string{}
	for _, path := range slices.Sorted(maps.Keys(o.wants)) {
		if now[path] != o.wants[path] {
			paths = append(paths, path)
		}
	}
	isOwner := func(path string) bool { return strings.HasPrefix(path, managedFields) }
	c.Action = Own
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

// isDeleted: what is gone, terminating or another object by now would not be deleted.
func (o *object) isDeleted(c *Change, live map[string]any) bool {
	c.Action, c.Count = Delete, len(o.deleted)
	if o.url.Path == "" {
		c.Names = slices.Sorted(slices.Values(o.deleted))
		c.Names = c.Names[:min(len(c.Names), maxNames)]
		return true
	}
	metadata := metadataOf(live)
	if live == nil || metadata["deletionTimestamp"] != nil || metadata["uid"] != metadataOf(o.before)["uid"] {
		return false
	}
	if metadata["finalizers"] != nil {
		c.Note = "finalizers would delay it"
	}
	return true
}

// isRuleStatus: what a replica reports of rules of sync is no difference, since this one follows them only since a moment.
func (o *object) isRuleStatus() bool {
	return o.info.Group == hubv1.GroupName && o.info.Resource == "syncrules" && o.info.Subresource == "status"
}

// problems finds those of a rule that the running hub does not have.
func (rec *recorder) problems(o *object, live map[string]any) {
	known := map[string]bool{}
	for _, one := range problemsIn(live) {
		known[one] = true
	}
	after, _ := o.last.object()
	for _, one := range problemsIn(after) {
		if !known[one] {
			rec.note(o.finding(NotRunning, one))
		}
	}
}

func problemsIn(object map[string]any) (all []string) {
	var rule hubv1.SyncRule
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &rule) != nil {
		return nil
	}
	for _, replica := range rule.Status.Replicas {
		for _, p := range replica.Problems {
			all = append(all, state.Sanitize(fmt.Sprintf("%s in %s: %s", p.Reason, p.Cluster, p.Object)))
		}
	}
	return all
}

// value writes a value for people, but nothing of one of a Secret, not even a hash: it would confirm a guess.
func (o *object) value(path, value string, uids map[string]string) string {
	switch isSecret := o.info.Group == "" && o.info.Resource == "secrets"; {
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
