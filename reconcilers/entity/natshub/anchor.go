// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// AnchorName is the ConfigMap with the identities of all buckets.
const AnchorName = "clusterfx-buckets"

// Anchor keeps a bucket's identity in a ConfigMap of the hub.
type Anchor struct {
	Client    client.Client // Client writes to the hub's cluster, Reader reads live
	Reader    client.Reader
	Namespace string // the credentials namespace
	Bucket    string // the name of the bucket
}

var _ bucket.Anchor = Anchor{}

// Load returns what was saved last.
func (a Anchor) Load(ctx context.Context) (bucket.Identity, bool, error) {
	var id bucket.Identity
	found, err := a.read(ctx)
	if err != nil {
		return id, false, err
	}
	text, ok := found.Data[a.Bucket]
	if !ok {
		return id, false, nil
	}
	if err := json.Unmarshal([]byte(text), &id); err != nil {
		return id, false, fmt.Errorf("decode the identity of bucket %s in ConfigMap %s/%s: %w", a.Bucket, a.Namespace, AnchorName, err)
	}
	return id, true, nil
}

// read returns an empty ConfigMap if there is none.
func (a Anchor) read(ctx context.Context) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: AnchorName}, found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the identities of buckets: %w", err)
	}
	return found, nil
}

var errAccepted = errors.New("an operator has accepted the bucket meanwhile")

// Save replaces the identity, but not one that an operator has accepted later. Each bucket has a field manager, so that no entry removes
// another.
func (a Anchor) Save(ctx context.Context, id bucket.Identity) error {
	text, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode the identity of bucket %s: %w", a.Bucket, err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return a.save(ctx, id, string(text)) })
	if err != nil {
		return fmt.Errorf("save the identity of bucket %s: %w", a.Bucket, err)
	}
	return nil
}

func (a Anchor) save(ctx context.Context, id bucket.Identity, text string) error {
	found, err := a.read(ctx)
	if err != nil {
		return err
	}
	var saved bucket.Identity
	if json.Unmarshal([]byte(found.Data[a.Bucket]), &saved) == nil && saved.Accepted.After(id.Accepted) {
		return errAccepted
	}
	applied := corev1ac.ConfigMap(AnchorName, a.Namespace).WithData(map[string]string{a.Bucket: text})
	if found.ResourceVersion != "" {
		applied.WithResourceVersion(found.ResourceVersion)
	}
	return a.Client.Apply(ctx, applied, client.FieldOwner("clusterfx-bucket-"+a.Bucket), client.ForceOwnership)
}

// Accept replaces the identity in the Anchor by the bucket's present one. The hub with this id notices within
// seconds, and collects the objects of missing entities. The error wraps bucket.ErrNotFound if there is no bucket.
func Accept(ctx context.Context, js jetstream.JetStream, a Anchor, hubID string) (bucket.Identity, error) {
	now, err := bucket.Describe(ctx, js, a.Bucket, hubID)
	if err != nil {
		return bucket.Identity{}, err
	}
	id := now.Identity
	id.Accepted = time.Now().UTC()
	return id, a.Save(ctx, id)
}
