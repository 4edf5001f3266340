// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

const (
	partCount  = 4       // partCount is the number of parts of a journal. It never changes: a Cluster stays in its part.
	warmSuffix = ".warm" // warmSuffix is of the key of a replica that builds the app, and does not have the shard.
)

// Names returns the names of the ConfigMaps of a journal.
func Names(journal string) []string {
	var all []string
	for i := range partCount {
		all = append(all, journal+"-"+strconv.Itoa(i))
	}
	return all
}

// part has the records of a part of the fleet, in a ConfigMap. Journal.mu protects the fields below it.
type part struct {
	writer client.Writer
	live   client.Reader
	key    client.ObjectKey
	seen   map[string]string // the data in the last response; used by the writer only

	records map[types.UID]entry // of the Clusters that this process has; an empty one says that there shall be none
	size    int                 // of the ConfigMap, in entries, with those that are to be written
}

// indexOf: a part is a range of the hashes by which Kubernetes shards objects.
func indexOf(uid types.UID) int {
	hash, err := strconv.ParseUint(sharding.HashField(string(uid)), 16, 64)
	if err != nil {
		return 0
	}
	index, _ := bits.Mul64(hash, partCount)
	return int(index) //nolint:gosec // It is less than partCount.
}

func (j *Journal) partOf(uid types.UID) *part { return j.parts[indexOf(uid)] }

func (p *part) read(ctx context.Context) error {
	var found corev1.ConfigMap
	err := p.live.Get(ctx, p.key, &found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ConfigMap %s: %w", p.key, err)
	}
	p.seen = found.Data
	return nil
}

// write has no version: the keys are of this process alone, or have a term.
func (p *part) write(ctx context.Context, change map[string]any) error {
	text, err := json.Marshal(map[string]any{"data": change})
	if err != nil {
		return fmt.Errorf("encode the entries of ConfigMap %s: %w", p.key, err)
	}
	if err = p.patch(ctx, text); apierrors.IsNotFound(err) {
		if err = p.create(ctx, change); apierrors.IsAlreadyExists(err) { // Another replica was faster.
			err = p.patch(ctx, text)
		}
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", p.key, err)
	}
	return nil
}

func (p *part) patch(ctx context.Context, text []byte) error {
	return p.sent(func(now *corev1.ConfigMap) error {
		return p.writer.Patch(ctx, now, client.RawPatch(types.MergePatchType, text), client.FieldOwner(hubcontroller.FieldManager))
	})
}

func (p *part) create(ctx context.Context, change map[string]any) error {
	return p.sent(func(now *corev1.ConfigMap) error {
		now.Data = map[string]string{}
		for key, value := range change {
			if text, isKept := value.(string); isKept {
				now.Data[key] = text
			}
		}
		return p.writer.Create(ctx, now, client.FieldOwner(hubcontroller.FieldManager))
	})
}

func (p *part) sent(request func(*corev1.ConfigMap) error) error {
	now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
	if err := request(now); err != nil {
		return err
	}
	p.seen = now.Data
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

// diff returns what a patch of the ConfigMap shall change; nil removes a key. The caller holds mu.
func (j *Journal) diff(p *part) map[string]any {
	change := map[string]any{}
	for uid, e := range p.records {
		warm := string(uid) + warmSuffix
		if left, isLeft := p.seen[warm]; isLeft && (e.gone || !j.isWarm(e) && (j.replica == "" || decode(left).By == j.replica)) {
			change[warm] = nil
		}
		key, wanted := j.keyOf(uid, e), j.text(e)
		is := p.seen[key]
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

// count counts the entries of a part, and drops what is done. The caller holds mu.
func (j *Journal) count(p *part) {
	p.size = len(p.seen)
	for uid, e := range p.records {
		key := j.keyOf(uid, e)
		_, isSeen := p.seen[key]
		_, isWarm := p.seen[key+warmSuffix]
		switch {
		case !e.isEmpty() && !isSeen:
			p.size++
		case e.gone && !isSeen && !isWarm:
			delete(p.records, uid)
		}
	}
}

// adopt takes over what the last responses have of a take's Clusters. The caller holds mu.
func (j *Journal) adopt(t *take) (ended int) {
	for _, p := range j.parts {
		for key, text := range p.seen {
			uid := types.UID(strings.TrimSuffix(key, warmSuffix))
			left, e := decode(text), p.records[uid]
			if e.gone || !t.has(uid) {
				continue
			}
			hasEnded := left.Starting != 0 && j.hasEnded(left, t)
			if hasEnded {
				ended++
			}
			e.adopt(left, hasEnded, time.Now())
			e.Term = t.term
			p.records[uid] = e
		}
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
