// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Description is what a server reports of a bucket, for tools.
type Description struct {
	// Identity has the counter of one hub's canary.
	Identity Identity
	// Values counts values and markers, earlier ones and canaries too; Bytes is their size.
	Values, Bytes uint64
	// LastRevision is the last write's.
	LastRevision Revision
	// History is how many values of a key are kept, Replicas how many servers have them.
	History, Replicas int
	// Expires is when values expire; 0: never. MarkerLife is how long markers of expired values are kept; 0: there
	// are none, so hubs notice within a minute.
	Expires, MarkerLife time.Duration
	// Consumers counts the watches.
	Consumers int
}

// Describe asks the server. Without writer (see Options) there is no counter. The error wraps ErrNotFound if the
// bucket does not exist.
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

// Definition describes a bucket to create.
type Definition struct {
	Name     string        // Name has letters, digits, - and _
	Replicas int           // 1, 3 or 5 servers. Default: 1.
	Expires  time.Duration // when values expire. Default: never.
	MaxBytes int64         // MaxBytes makes writes fail when it is reached. Default: the account's limit.
}

const markerLife = time.Hour

// Create creates a bucket with History values for each key, so that a hub sees what was deleted and created again
// while it did not run, and with markers for expired values. The error wraps ErrConflict if it exists.
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

func streamOf(name string) string { return "KV_" + name }
