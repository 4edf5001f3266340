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

// Limiter limits the memory of one app's responses when they are decoded: of each, and of all in the time that decoding
// takes. An app that receives more waits in Wait. Sizes are in bytes. It is safe for many goroutines.
type Limiter struct {
	Limit   int64         // of one response, or of one event of a watch, in memory
	List    int64         // of a list, on the wire
	Taken   atomic.Int64  // the sum of all responses so far, in memory
	Pace    *rate.Limiter // of all responses, in memory
	schemas *Schemas      // of the types that responses are decoded to
}

// Limits of one response. client-go reads it whole, in two and a half times its size, and then makes objects, which can
// take hundreds of times their size. So both the bytes and the objects are limited.
const (
	// MaxListBody is the size of a list, or half of what the app may keep, if that is more. Reading this much takes 200
	// MiB.
	MaxListBody = 80 << 20
	// maxEvent is the size of one event of a watch. client-go accepts no larger one, but reads it to its end first.
	maxEvent = 16 << 20
	// MaxOverCache is by how much a response may exceed the budget of the cache: some data, such as managedFields, is
	// dropped before it is stored.
	MaxOverCache = 64 << 20
)

// ErrTooLarge is the error of a response that exceeds a limit.
var ErrTooLarge = kubeconfig.NewNotHealthyError(
	"the response of the API server is larger than the hub accepts",
	"The API server sends more in one response than the hub accepts; look for objects that are "+
		"huge or far too many, or let the modules watch less.")

const (
	// ReadingCost is how many bytes of memory client-go takes to read one byte.
	ReadingCost = 3
	// ReadRate is the sustained rate of Wait, in bytes per second, about what a core decodes.
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

// Meter returns the meter of a response with a media type, or nil if no objects are made of it. A stream is one event
// after another.
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

// Wait adds n bytes to Taken and blocks until the app may receive them, or ctx ends.
func (i *Limiter) Wait(ctx context.Context, n int64) error {
	i.Taken.Add(n)
	for n > 0 {
		part := min(n, int64(i.Pace.Burst()))
		if err := i.Pace.WaitN(ctx, int(part)); err != nil {
			return fmt.Errorf("wait until the response may be read: %w", err)
		}
		n -= part
	}
	return nil
}

// Meter estimates the memory of one response while its body is read.
type Meter interface {
	// Read gets the body in pieces of any size. It returns ErrTooLarge beyond a limit, and an error that wraps
	// kubeconfig.ErrNotKubernetes for a body that no API server sends.
	Read(piece []byte) error
	// Charged returns the estimate since the last call, in bytes.
	Charged() int64
}

type bill struct {
	limit int64
	sum   int64
	news  int64 // since the last call of Charged
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
