// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
)

// intake bounds what the answers to one app turn into in memory, in bytes: each of them, and all
// together in the time that it takes to make objects of them. An app that gets more has to wait for it,
// so that a remote cannot fill the hub's memory by sending many large answers at once.
type intake struct {
	limit  int64        // of one answer, or of one event of a watch
	list   int64        // of a list, in bytes on the wire
	taken  atomic.Int64 // what all answers so far have turned into
	shapes *shapes      // of what is decoded
	pace   *rate.Limiter
}

// The limits of one response. client-go reads a response into memory whole, where it takes two and a half times its size,
// and then makes objects of it, which can take hundreds of times their size: two bytes of protobuf are enough for a
// container of 900. So a response is limited by its bytes, and by the size of the objects.
const (
	// maxListBody is the size of a list, in bytes, unless the app may keep more than twice as much: then it is half of
	// that. A list of this size takes 200 MiB to read.
	maxListBody = 80 << 20
	// maxEvent is the size of one event of a watch, in bytes. client-go accepts no larger event, but reads it to its end
	// first.
	maxEvent = 16 << 20
	// maxOverCache is by how much the objects of a response may exceed what the app may keep, in bytes: some of it is
	// dropped before it is kept, such as managedFields.
	maxOverCache = 64 << 20
)

// errBodyTooLarge is the error of a response that exceeds a limit.
var errBodyTooLarge = errors.New("the answer of the API server is larger than the hub accepts")

const (
	// readingCost is how many bytes of memory it takes to read one byte of an answer.
	readingCost = 3
	// intakePace is how many bytes per second are taken in for long. A core decodes about as much.
	intakePace = 128 << 20
)

// newIntake returns the intake of an app that may keep so many bytes.
func newIntake(s *shapes, maxCache int64) *intake {
	limit := growth*maxCache + maxOverCache // lists are charged with room to grow
	list := max(maxListBody, maxCache/growth)
	return &intake{
		limit: limit, list: list, shapes: s,
		pace: rate.NewLimiter(intakePace, int(limit+readingCost*list)),
	}
}

// meter returns the meter of a response with a media type, or nil if no objects are made of such a response. The response
// of a stream is one event after another.
func (i *intake) meter(mediaType string, stream bool) meter {
	bill := bill{limit: i.limit}
	switch mediaType {
	case runtime.ContentTypeJSON:
		return &jsonMeter{bill: bill, stream: stream}
	case runtime.ContentTypeProtobuf:
		return newProtobufMeter(bill, i.shapes, stream)
	}
	return nil
}

// wait returns when so many bytes more may be taken in.
func (i *intake) wait(ctx context.Context, n int64) error {
	i.taken.Add(n)
	for n > 0 {
		part := min(n, int64(i.pace.Burst()))
		if err := i.pace.WaitN(ctx, int(part)); err != nil {
			return fmt.Errorf("wait until the answer may be read: %w", err)
		}
		n -= part
	}
	return nil
}

// meter sees what is read of a body, in order and in pieces of any size. It returns an error when
// that turns into too much.
type meter interface {
	read(piece []byte) error
	// charged returns what the body has turned into since the last call, in bytes of memory.
	charged() int64
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
		return fmt.Errorf("%w: too much is made of it", errBodyTooLarge)
	}
	return nil
}

func (b *bill) charged() int64 {
	news := b.news
	b.news = 0
	return news
}
