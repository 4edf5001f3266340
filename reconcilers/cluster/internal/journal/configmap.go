// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// configMap has one key for each Cluster. One goroutine at a time uses it.
//
// Every write carries the version that it replaces. The API server rejects a delayed write of a paused process that
// arrives after the write of the next leader.
type configMap struct {
	writer  client.Writer
	live    client.Reader
	key     client.ObjectKey
	version string // resourceVersion of the ConfigMap; empty if there is none
}

func (s *configMap) named(name string) configMap {
	return configMap{writer: s.writer, live: s.live, key: client.ObjectKey{Namespace: s.key.Namespace, Name: name}}
}

// read omits entries that cannot be decoded: a damaged journal must not keep a hub from starting.
func (s *configMap) read(ctx context.Context) (records, error) {
	var found corev1.ConfigMap
	err := s.live.Get(ctx, s.key, &found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", s.key, err)
	}
	s.version = found.ResourceVersion
	kept := records{}
	for name, text := range found.Data {
		var e entry
		if json.Unmarshal([]byte(text), &e) == nil {
			kept[name] = e
		}
	}
	return kept, nil
}

var errOvertaken = errors.New("changed by another client")

// write returns errOvertaken if the records have changed since the last read or write; a second call replaces them anyway.
func (s *configMap) write(ctx context.Context, l records) error {
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name, ResourceVersion: s.version},
		Data:       make(map[string]string, len(l)),
	}
	for name, e := range l {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode the entry of %s: %w", name, err)
		}
		wanted.Data[name] = string(text)
	}
	err := s.put(ctx, wanted)
	if err == nil {
		s.version = wanted.ResourceVersion
		return nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		if _, unread := s.read(ctx); unread == nil {
			err = fmt.Errorf("%w: %w", errOvertaken, err)
		}
	}
	return fmt.Errorf("write ConfigMap %s: %w", s.key, err)
}

func (s *configMap) put(ctx context.Context, wanted *corev1.ConfigMap) error {
	if wanted.ResourceVersion == "" {
		return s.writer.Create(ctx, wanted, client.FieldOwner(hubcontroller.FieldManager))
	}
	return s.writer.Update(ctx, wanted, client.FieldOwner(hubcontroller.FieldManager))
}

func (s *configMap) remove(ctx context.Context) error {
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
	if err := client.IgnoreNotFound(s.writer.Delete(ctx, found)); err != nil {
		return fmt.Errorf("delete ConfigMap %s: %w", s.key, err)
	}
	return nil
}
