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

// configMap keeps records in a ConfigMap, with one key for each Cluster. One goroutine uses it.
//
// Every write states the version that it replaces. One that was on its way while its process stood
// still, and arrives after the next leader has written, is refused.
type configMap struct {
	writer  client.Writer
	live    client.Reader
	key     client.ObjectKey
	version string // that of the ConfigMap; empty if there is none
}

// read returns what is on record. An entry that cannot be understood is left out: a journal is a
// help, and no reason for a hub not to start.
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

// errOvertaken says that somebody else has written, or removed, what is on record.
var errOvertaken = errors.New("it was changed by somebody else")

// write replaces what is on record. It returns errOvertaken if that is not what was read or written
// last; another try replaces it all the same.
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
