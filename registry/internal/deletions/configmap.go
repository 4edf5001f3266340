// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// ConfigMapStore is a Store in a ConfigMap, made with the first hold. Its methods end with their context, and after a few
// seconds.
type ConfigMapStore struct {
	// Client reads and writes without a cache.
	Client client.Client
	Key    client.ObjectKey
}

const timeout = 5 * time.Second

func savedOf(h ledger.Held) holds.Saved {
	saved := h.Saved
	saved.Names = short(h)
	return saved
}

// maxNames is the size of the cause and the names of a hold, in bytes of JSON: 1000 holds with the longest of
// everything else are smaller than an object may be. More are not stored, but their deletes are refused.
const maxNames = 256

func short(h ledger.Held) []string {
	var fit []string
	left := maxNames
	if h.Cause != "" {
		left -= len(`"cause":"",`) + len(h.Cause)
	}
	for _, name := range h.Names {
		text, err := json.Marshal(name)
		if size := len(text) + len(","); err == nil && size <= left {
			fit, left = append(fit, name), left-size
		}
	}
	return fit
}

// heldIn returns the Holds of an entry, sorted by id.
func heldIn(entry holds.Kept, replica string) (all []ledger.Held) {
	for _, id := range slices.Sorted(maps.Keys(entry.Holds)) {
		all = append(all, ledger.Held{ID: id, Saved: entry.Holds[id], Replica: replica})
	}
	return all
}

// StoreContent is what a Store has.
type StoreContent struct {
	Values  map[string]string     // Values are the entries as they were written, by key.
	Entries map[string]holds.Kept // Entries are those that can be read.
	// Annotations allow deletes.
	Annotations map[string]string
	// Version changes with each write; see Store. Empty if nothing was ever stored.
	Version string
}

// Load returns the content, also beside an error if a key has no holds; nil if it could not read the ConfigMap.
func (s *ConfigMapStore) Load(ctx context.Context) (*StoreContent, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var all corev1.ConfigMap
	if err := s.Client.Get(ctx, s.Key, &all); apierrors.IsNotFound(err) {
		return &StoreContent{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", s.Key, err)
	}
	entries, err := holds.Read(&all)
	return &StoreContent{Values: all.Data, Entries: entries, Annotations: all.Annotations, Version: all.ResourceVersion}, err
}

// Write sets and removes keys. Without a version it makes a ConfigMap that does not exist.
func (s *ConfigMapStore) Write(ctx context.Context, version string, values map[string]string) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, patch := map[string]string{}, map[string]*string{}
	for key, text := range values {
		patch[key] = nil
		if text != "" {
			data[key], patch[key] = text, &text
		}
	}
	err = s.patch(ctx, version, patch)
	if apierrors.IsNotFound(err) && version == "" {
		if len(data) == 0 {
			return true, nil
		}
		err = s.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}, Data: data,
		})
		if apierrors.IsAlreadyExists(err) {
			err = s.patch(ctx, version, patch)
		}
	}
	if version != "" && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write holds of deletes to the ConfigMap %s: %w", s.Key, err)
	}
	return true, nil
}

// annotationRemovals has the UIDs of Clusters whose removal was admitted, with the times in seconds.
const annotationRemovals = "clusterfx.dev/removals"

// Claim records the removal of a Cluster, unless limit others are in the Window. It reports whether the removal is
// recorded, also earlier, and how many others are. Of processes that share the ConfigMap, one at a time records.
func (s *ConfigMapStore) Claim(ctx context.Context, uid types.UID, limit int, now time.Time) (claimed bool, others int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	backoff := wait.Backoff{Steps: 12, Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 1}
	err = retry.OnError(backoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		claimed, others, err = s.claim(ctx, uid, limit, now)
		return err
	})
	if err != nil {
		return false, others, fmt.Errorf("record a removal in the ConfigMap %s: %w", s.Key, err)
	}
	return claimed, others, nil
}

func (s *ConfigMapStore) claim(ctx context.Context, uid types.UID, limit int, now time.Time) (claimed bool, others int, err error) {
	all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	missing := s.Client.Get(ctx, s.Key, all)
	if client.IgnoreNotFound(missing) != nil {
		return false, 0, missing
	}
	removals := map[types.UID]int64{}
	if text := all.Annotations[annotationRemovals]; text != "" {
		if err := json.Unmarshal([]byte(text), &removals); err != nil {
			return false, 0, fmt.Errorf("read the annotation that records removals: %w; remove it", err)
		}
	}
	maps.DeleteFunc(removals, func(_ types.UID, at int64) bool { return now.Sub(time.Unix(at, 0)) > ledger.Window })
	_, claimed = removals[uid]
	others = len(removals)
	if claimed || others >= limit {
		return claimed, others, nil
	}
	removals[uid] = now.Unix()
	text, err := json.Marshal(removals)
	if err != nil {
		return false, others, err
	}
	if missing != nil {
		metav1.SetMetaDataAnnotation(&all.ObjectMeta, annotationRemovals, string(text))
		return true, others, s.Client.Create(ctx, all)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": all.ResourceVersion, "annotations": map[string]string{annotationRemovals: string(text)},
	}})
	if err != nil {
		return false, others, err
	}
	return true, others, s.Client.Patch(ctx, all, client.RawPatch(types.MergePatchType, body))
}

// patch removes keys without a value.
func (s *ConfigMapStore) patch(ctx context.Context, version string, data map[string]*string) error {
	change := map[string]any{"data": data}
	if version != "" {
		change["metadata"] = map[string]string{"resourceVersion": version}
	}
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	return s.Client.Patch(ctx, all, client.RawPatch(types.MergePatchType, body))
}

// MemoryStore is a Store for a hub whose holds end with its process.
type MemoryStore struct{}

// Load returns nothing.
func (MemoryStore) Load(context.Context) (*StoreContent, error) { return &StoreContent{}, nil }

// Write does nothing.
func (MemoryStore) Write(context.Context, string, map[string]string) (done bool, err error) {
	return true, nil
}

// Claim records nothing: without a store, removals have no limit.
func (MemoryStore) Claim(context.Context, types.UID, int, time.Time) (claimed bool, others int, err error) {
	return true, 0, nil
}
