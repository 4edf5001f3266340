// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// ConfigMapStore is a Store in a ConfigMap, made with the first hold. Its methods end with their context, and after a few
// seconds.
type ConfigMapStore struct {
	// Client reads and writes without a cache.
	Client client.Client
	Key    client.ObjectKey
}

const timeout = 5 * time.Second

func entryOf(h ledger.Held) *holds.Saved {
	return &holds.Saved{
		Module: h.Module, Group: h.Resource.Group, Resource: h.Resource.Resource, Cluster: string(h.Target), Fleet: h.Fleet,
		Replica: h.Replica, Since: metav1.NewTime(h.Since), Deleted: h.Done, More: h.More, Names: short(h),
		Cause:   h.Cause,
		Granted: h.Granted, Spent: h.Spent, Used: h.Used, Note: h.Note,
	}
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

func holdOf(id string, e *holds.Saved) ledger.Held {
	return ledger.Held{
		ID: id, Module: e.Module, Resource: schema.GroupResource{Group: e.Group, Resource: e.Resource},
		Target: state.ClusterName(e.Cluster), Fleet: e.Fleet, Cause: e.Cause, Replica: e.Replica, Since: e.Since.Time, Done: e.Deleted, More: e.More,
		Names: e.Names, Granted: e.Granted, Spent: e.Spent, Used: e.Used, Note: e.Note,
	}
}

// StoreContent is what a Store has.
type StoreContent struct {
	// Holds are sorted by id.
	Holds []ledger.Held
	// Annotations allow deletes.
	Annotations map[string]string
	// Version changes with each write; see Replace. Empty if nothing was ever stored.
	Version string
}

// Load returns the content, also beside an error if a key is no hold; nil if it could not read the ConfigMap.
func (s *ConfigMapStore) Load(ctx context.Context) (*StoreContent, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var all corev1.ConfigMap
	if err := s.Client.Get(ctx, s.Key, &all); apierrors.IsNotFound(err) {
		return &StoreContent{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s: %w", s.Key, err)
	}
	found := &StoreContent{Annotations: all.Annotations, Version: all.ResourceVersion}
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(all.Data)) {
		one, err := holds.Parse(all.Data[id])
		if err != nil {
			problems = append(problems, fmt.Errorf("read the key %q of the ConfigMap %s: %w; remove the key", id, s.Key, err))
			continue
		}
		found.Holds = append(found.Holds, holdOf(id, &one))
	}
	return found, errors.Join(problems...)
}

// Save stores a hold in place of the one with its id.
func (s *ConfigMapStore) Save(ctx context.Context, h ledger.Held) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, err := entryOf(h).Text()
	if err != nil {
		return err
	}
	err = s.patch(ctx, values{h.ID: &value})
	if apierrors.IsNotFound(err) {
		err = s.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}, Data: map[string]string{h.ID: value},
		})
		if apierrors.IsAlreadyExists(err) {
			err = s.patch(ctx, values{h.ID: &value})
		}
	}
	if err != nil {
		return fmt.Errorf("write the hold %s to the ConfigMap %s: %w", h.ID, s.Key, err)
	}
	return nil
}

// Remove returns nil for an unknown id.
func (s *ConfigMapStore) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := client.IgnoreNotFound(s.patch(ctx, values{id: nil})); err != nil {
		return fmt.Errorf("remove the hold %s from the ConfigMap %s: %w", id, s.Key, err)
	}
	return nil
}

// Replace removes the hold with an id and stores another one, or none for nil, in one write, if the version is still
// that of StoreContent. It returns the next version; empty, without a change, if it is not.
func (s *ConfigMapStore) Replace(ctx context.Context, version, id string, by *ledger.Held) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changes := values{id: nil}
	if by != nil {
		value, err := entryOf(*by).Text()
		if err != nil {
			return "", err
		}
		changes[by.ID] = &value
	}
	all, err := s.patchVersion(ctx, version, changes)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("replace the hold %s in the ConfigMap %s: %w", id, s.Key, err)
	}
	return all.ResourceVersion, nil
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

// A nil value removes a key.
type values map[string]*string

func (s *ConfigMapStore) patch(ctx context.Context, changes values) error {
	_, err := s.patchVersion(ctx, "", changes)
	return err
}

// patchVersion takes any version if it is empty.
func (s *ConfigMapStore) patchVersion(ctx context.Context, version string, changes values) (*corev1.ConfigMap, error) {
	change := map[string]any{"data": changes}
	if version != "" {
		change["metadata"] = map[string]string{"resourceVersion": version}
	}
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	err = s.Client.Patch(ctx, all, client.RawPatch(types.MergePatchType, body))
	return all, err
}
