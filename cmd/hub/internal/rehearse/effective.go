// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	maxNames = 20
	maxValue = 200
	maxField = 50
	readLive = 10 * time.Second
)

// effective returns the changes that the live objects do not have.
func (rec *recorder) effective(ctx context.Context, secrets *secrets) []Change {
	rec.mu.Lock()
	objects, uids := maps.Clone(rec.objects), maps.Clone(rec.uids)
	rec.mu.Unlock()
	var all []Change
	for k, o := range objects {
		if o.last == nil || o.last.status >= http.StatusMultipleChoices && len(o.changes) == 0 && len(o.deletes) == 0 {
			continue // It was refused, which is a finding.
		}
		c := Change{Cluster: rec.cluster, InHub: rec.inHub, Module: k.module, Object: k.what, resource: resourceOf(o), proven: o.proven}
		live, isKnown := rec.now(ctx, o)
		if !isKnown {
			c.Note = "the object could not be read again"
		}
		if o.changed(&c, live, renderer{uids: uids, secrets: secrets, hides: o.info.Group == "" && o.info.Resource == "secrets"}) {
			all = append(all, c)
		}
	}
	return all
}

// now returns the live object; nil if there is none. If it cannot be read, it is as it was.
func (rec *recorder) now(ctx context.Context, o *object) (map[string]any, bool) {
	if o.read.Path == "" {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, readLive)
	defer cancel()
	found, err := look(ctx, rec.live, &write{read: o.read, name: o.info.Name})
	if err != nil || found.status >= http.StatusMultipleChoices && found.status != http.StatusNotFound {
		return o.before, false
	}
	live, _ := found.object()
	return live, true
}

// changed completes c, and reports whether there is a change.
func (o *object) changed(c *Change, live map[string]any, show renderer) bool {
	switch {
	case len(o.deletes) > 0:
		return o.deleted(c, live)
	case o.other:
		c.Action = Request
		return true
	case o.creates && live == nil:
		c.Action = Create
		return true
	}
	left := remaining(o.changes, live)
	c.Action = Own
	for _, one := range left {
		if one.path[0] != managedFields {
			c.Action = Update
		}
	}
	for _, one := range left {
		if c.Action == Update && one.path[0] == managedFields {
			continue // It follows from the other fields.
		}
		if len(c.Fields) == maxField {
			c.Note = strconv.Itoa(len(left)) + " fields"
			break
		}
		field := show.field(one)
		if o.stopped {
			field.To = "(another value each time)"
		}
		c.Fields = append(c.Fields, field)
	}
	return len(left) > 0
}

// deleted: what is gone, terminating or another object by now would not be deleted.
func (o *object) deleted(c *Change, live map[string]any) bool {
	c.Action, c.Count = Delete, len(o.deletes)
	if o.read.Path == "" {
		c.Names = slices.Sorted(slices.Values(o.deletes))
		c.Names = c.Names[:min(len(c.Names), maxNames)]
		return true
	}
	metadata := metadataOf(live)
	if live == nil || metadata["deletionTimestamp"] != nil || metadata["uid"] != metadataOf(o.before)["uid"] {
		return false
	}
	if o.finalize {
		c.Note = "finalizers would delay it"
	}
	return true
}

// renderer writes values for people.
type renderer struct {
	uids    map[string]string
	secrets *secrets
	hides   bool
}

func (s renderer) field(c change) Field {
	path := c.String()
	if c.path[0] == managedFields {
		return Field{Path: path, From: presence(c.from), To: presence(c.to)}
	}
	if s.hides && !strings.HasPrefix(path, "metadata.labels") && path != "type" {
		return Field{Path: path, From: s.secrets.of(c.from), To: s.secrets.of(c.to)}
	}
	return Field{Path: path, From: s.value(c.from), To: s.value(c.to)}
}

func presence(fields any) string {
	if fields == nil {
		return "(none)"
	}
	return "some fields"
}

func (s renderer) value(v any) string {
	written := text(v)
	for uid, name := range s.uids {
		written = strings.ReplaceAll(written, uid, name)
	}
	if written = state.Sanitize(written); len(written) > maxValue {
		written = strings.ToValidUTF8(written[:maxValue], "") + "…"
	}
	return written
}

// secrets gives each value of a Secret a mark, by which equal values can be told in the report, and nothing else.
type secrets struct {
	mu    sync.Mutex // protects marks
	marks map[string]string
}

const secretMark = "\x00secret "

func (s *secrets) of(v any) string {
	if v == nil {
		return "(none)"
	}
	value := text(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks[value] == "" {
		s.marks[value] = secretMark + strconv.Itoa(len(s.marks))
	}
	return s.marks[value]
}

// number replaces the marks by numbers in the order of the sorted report, so that it is the same when it is repeated.
func (s *secrets) number(changes []Change) {
	numbers := map[string]string{}
	for i := range changes {
		for j := range changes[i].Fields {
			f := &changes[i].Fields[j]
			for _, value := range []*string{&f.From, &f.To} {
				if !strings.HasPrefix(*value, secretMark) {
					continue
				}
				if numbers[*value] == "" {
					numbers[*value] = "(secret value " + strconv.Itoa(len(numbers)+1) + ")"
				}
				*value = numbers[*value]
			}
		}
	}
}
