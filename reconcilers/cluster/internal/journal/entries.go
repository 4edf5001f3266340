// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

const warmSuffix = ".warm" // warmSuffix is of the key of a replica that builds the app, and does not have the shard.

func (j *Journal) readAll(ctx context.Context) error {
	var found corev1.ConfigMap
	err := j.live.Get(ctx, j.key, &found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ConfigMap %s: %w", j.key, err)
	}
	j.seen = found.Data
	return nil
}

// send has no version: the keys are of this process alone, or have a term.
func (j *Journal) send(ctx context.Context, change map[string]any) error {
	text, err := json.Marshal(map[string]any{"data": change})
	if err != nil {
		return fmt.Errorf("encode the entries of ConfigMap %s: %w", j.key, err)
	}
	if err = j.patch(ctx, text); apierrors.IsNotFound(err) {
		if err = j.create(ctx, change); apierrors.IsAlreadyExists(err) { // Another replica was faster.
			err = j.patch(ctx, text)
		}
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", j.key, err)
	}
	return nil
}

func (j *Journal) patch(ctx context.Context, text []byte) error {
	return j.sent(func(now *corev1.ConfigMap) error {
		return j.writer.Patch(ctx, now, client.RawPatch(types.MergePatchType, text), client.FieldOwner(hubcontroller.FieldManager))
	})
}

func (j *Journal) create(ctx context.Context, change map[string]any) error {
	return j.sent(func(now *corev1.ConfigMap) error {
		now.Data = map[string]string{}
		for key, value := range change {
			if text, isKept := value.(string); isKept {
				now.Data[key] = text
			}
		}
		return j.writer.Create(ctx, now, client.FieldOwner(hubcontroller.FieldManager))
	})
}

func (j *Journal) sent(request func(*corev1.ConfigMap) error) error {
	now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}}
	if err := request(now); err != nil {
		return err
	}
	j.seen = now.Data
	return nil
}

// isWarm: this replica builds the app only.
func (j *Journal) isWarm(e entry) bool { return j.replica != "" && e.Term == 0 && !e.gone }

func (j *Journal) keyOf(uid types.UID, e entry) string {
	if j.isWarm(e) {
		return string(uid) + warmSuffix
	}
	return string(uid)
}

// text is empty for an empty entry.
func (j *Journal) text(e entry) string {
	if e.isEmpty() {
		return ""
	}
	e.By = j.replica
	text, _ := json.Marshal(e) //nolint:errchkjson // It has numbers and a name.
	return string(text)
}

// replaces: a higher term is of a later holder, and another replica may build the app, too.
func (j *Journal) replaces(is, e entry) bool {
	return j.replica == "" || e.gone || is.Term <= e.Term && (!j.isWarm(e) || !e.isEmpty() || is.By == j.replica)
}

// diff returns what a patch shall change; nil removes a key. The caller holds mu.
func (j *Journal) diff() map[string]any {
	change := map[string]any{}
	for uid, e := range j.records {
		warm := string(uid) + warmSuffix
		if left, isLeft := j.seen[warm]; isLeft && (e.gone || !j.isWarm(e) && (j.replica == "" || decode(left).By == j.replica)) {
			change[warm] = nil
		}
		key, wanted := j.keyOf(uid, e), j.text(e)
		is := j.seen[key]
		switch {
		case is == wanted, !j.replaces(decode(is), e):
		case wanted == "":
			change[key] = nil
		default:
			change[key] = wanted
		}
	}
	return change
}

// count counts the entries, and drops what is done. The caller holds mu.
func (j *Journal) count() {
	j.size = len(j.seen)
	for uid, e := range j.records {
		key := j.keyOf(uid, e)
		_, isSeen := j.seen[key]
		_, isWarm := j.seen[key+warmSuffix]
		switch {
		case !e.isEmpty() && !isSeen:
			j.size++
		case e.gone && !isSeen && !isWarm:
			delete(j.records, uid)
		}
	}
}

// adopt takes over what the last responses have of a take's Clusters. The caller holds mu.
func (j *Journal) adopt(t *take) (ended int) {
	for key, text := range j.seen {
		uid := types.UID(strings.TrimSuffix(key, warmSuffix))
		left, e := decode(text), j.records[uid]
		if e.gone || !t.has(uid) {
			continue
		}
		hasEnded := left.Starting != 0 && j.hasEnded(left, t)
		if hasEnded {
			ended++
		}
		e.adopt(left, hasEnded, time.Now())
		e.Term = t.term
		j.records[uid] = e
	}
	return ended
}

// hasEnded reports whether the process has ended that has written an entry.
func (j *Journal) hasEnded(left entry, t *take) bool {
	switch left.By {
	case j.replica:
		return j.replica == "" || left.Starting < j.born
	case t.crashed:
		return true
	}
	return j.replica == ""
}
