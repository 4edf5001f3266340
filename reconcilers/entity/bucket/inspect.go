// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Description is what a server reports of a bucket. A description needs no Bucket, and is for tools.
type Description struct {
	// Identity is that of the bucket for one hub: with the counter of the canary of the hub.
	Identity Identity
	// Values is how many values and markers the stream has, with earlier values of keys and with canaries, and Bytes their size.
	Values, Bytes uint64
	// LastRevision is that of the last write.
	LastRevision Revision
	// History is how many values of each key are kept, and Replicas how many servers have them.
	History, Replicas int
	// Expires is when values expire; 0 for never. MarkerLife is how long the markers of expired values are kept; 0 means that
	// values expire without a marker, so that hubs notice within a minute.
	Expires, MarkerLife time.Duration
	// Consumers is how many watches follow the bucket.
	Consumers int
}

// Describe reads the description of a bucket from the server. writer identifies the hub, see Options; without it the description
// has no counter. The error wraps ErrNotFound if the bucket does not exist.
func Describe(ctx context.Context, js jetstream.JetStream, name, writer string) (Description, error) {
	stream, err := js.Stream(ctx, streamOf(name))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Description{}, fmt.Errorf("bucket %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return Description{}, fmt.Errorf("read bucket %s: %w", name, err)
	}
	info := stream.CachedInfo()
	d := Description{
		Identity: Identity{Created: info.Created.UTC()},
		Values:   info.State.Msgs, Bytes: info.State.Bytes, LastRevision: Revision(info.State.LastSeq), Consumers: info.State.Consumers,
		History: int(info.Config.MaxMsgsPerSubject), Replicas: info.Config.Replicas,
		Expires: info.Config.MaxAge, MarkerLife: info.Config.SubjectDeleteMarkerTTL,
	}
	if writer == "" {
		return d, nil
	}
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return d, fmt.Errorf("open bucket %s: %w", name, err)
	}
	e, err := kv.Get(ctx, canaryKey(writer))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("read the canary of bucket %s: %w", name, err)
	}
	d.Identity.Counter = decodeCanary(e.Value()).Counter
	return d, nil
}

// Definition describes a bucket that is created.
type Definition struct {
	// Name is the name: letters, digits, - and _.
	Name string
	// Replicas is how many servers have the values: 1, 3 or 5. Default: 1.
	Replicas int
	// Expires is when values expire. Default: never.
	Expires time.Duration
	// MaxBytes limits the bucket; writes fail when it is full. Default: no limit but that of the account.
	MaxBytes int64
}

// markerLife is how long a bucket of ours keeps the markers of values that have expired.
const markerLife = time.Hour

// Create creates a bucket as hubs need it: with History values for each key, so that a hub recognizes a key that was deleted and
// created again while it did not run, and with markers for values that expire. The error wraps ErrConflict if it exists.
func Create(ctx context.Context, js jetstream.JetStream, d Definition) error {
	if !validName.MatchString(d.Name) {
		return fmt.Errorf("%w: the name %q: letters, digits, - and _", ErrInvalidOptions, d.Name)
	}
	c := jetstream.KeyValueConfig{Bucket: d.Name, History: History, Replicas: d.Replicas, TTL: d.Expires, MaxBytes: d.MaxBytes}
	if d.Expires > 0 {
		c.LimitMarkerTTL = markerLife
	}
	_, err := js.CreateKeyValue(ctx, c)
	if errors.Is(err, jetstream.ErrBucketExists) {
		return fmt.Errorf("bucket %s exists: %w", d.Name, ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", d.Name, err)
	}
	return nil
}

// streamOf returns the name of the stream of a bucket.
func streamOf(name string) string { return "KV_" + name }
