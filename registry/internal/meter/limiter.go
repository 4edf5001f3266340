// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Limiter bounds what the answers to one app turn into in memory, in bytes: each of them, and all
// together in the time that it takes to make objects of them. An app that gets more has to wait for it,
// so that a remote cannot fill the hub's memory by sending many large answers at once.
type Limiter struct {
	Limit   int64        // of one answer, or of one event of a watch
	List    int64        // of a list, in bytes on the wire
	Taken   atomic.Int64 // what all answers so far have turned into
	schemas *Schemas     // of what is decoded
	Pace    *rate.Limiter
}

// The limits of one response. client-go reads a response into memory whole, where it takes two and a half times its size,
// and then makes objects of it, which can take hundreds of times their size: two bytes of protobuf are enough for a
// container of 900. So a response is limited by its bytes, and by the size of the objects.
const (
	// MaxListBody is the size of a list, in bytes, unless the app may keep more than twice as much: then it is half of
	// that. A list of this size takes 200 MiB to read.
	MaxListBody = 80 << 20
	// maxEvent is the size of one event of a watch, in bytes. client-go accepts no larger event, but reads it to its end
	// first.
	maxEvent = 16 << 20
	// MaxOverCache is by how much the objects of a response may exceed what the app may keep, in bytes: some of it is
	// dropped before it is kept, such as managedFields.
	MaxOverCache = 64 << 20
)

// ErrTooLarge is the error of a response that exceeds a limit.
var ErrTooLarge = kubeconfig.NewNotHealthyError(
	"the answer of the API server is larger than the hub accepts",
	"The API server sends more in one answer than the hub accepts; look for objects that are "+
		"huge or far too many, raise --max-cache-bytes-per-cluster of the hub, or let the modules watch less (spec.namespaces).")

const (
	// ReadingCost is how many bytes of memory it takes to read one byte of an answer.
	ReadingCost = 3
	// ReadRate is how many bytes per second are taken in for long. A core decodes about as much.
	ReadRate = 128 << 20
)

// NewLimiter returns the limiter of an app that may keep maxCache bytes of objects.
func NewLimiter(s *Schemas, maxCache int64) *Limiter {
	limit := Growth*maxCache + MaxOverCache // lists are charged with room to grow
	list := max(MaxListBody, maxCache/Growth)
	return &Limiter{
		Limit: limit, List: list, schemas: s,
		Pace: rate.NewLimiter(ReadRate, int(limit+ReadingCost*list)),
	}
}

// Meter returns the meter of a response with a media type, or nil if no objects are made of such a response. The response
// of a stream is one event after another.
func (i *Limiter) Meter(mediaType string, stream bool) Meter {
	bill := bill{limit: i.Limit}
	switch mediaType {
	case runtime.ContentTypeJSON:
		return &jsonMeter{bill: bill, stream: stream}
	case runtime.ContentTypeProtobuf:
		return newProtobufMeter(bill, i.schemas, stream)
	}
	return nil
}

// Wait returns when so many bytes more may be taken in.
func (i *Limiter) Wait(ctx context.Context, n int64) error {
	i.Taken.Add(n)
	for n > 0 {
		part := min(n, int64(i.Pace.Burst()))
		if err := i.Pace.WaitN(ctx, int(part)); err != nil {
			return fmt.Errorf("wait until the answer may be read: %w", err)
		}
		n -= part
	}
	return nil
}

// Meter sees what is read of a body, in order and in pieces of any size. It returns an error when
// that turns into too much.
type Meter interface {
	Read(piece []byte) error
	// Charged returns what the body has turned into since the last call, in bytes of memory.
	Charged() int64
}

// bill is what an answer or an event turns into so far, in bytes of memory.
type bill struct {
	limit int64
	sum   int64
	news  int64 // since the last call of charged
}

func (b *bill) charge(bytes int64) error {
	b.sum += bytes
	b.news += bytes
	if b.sum > b.limit {
		return fmt.Errorf("%w: too much is made of it", ErrTooLarge)
	}
	return nil
}

func (b *bill) Charged() int64 {
	news := b.news
	b.news = 0
	return news
}
