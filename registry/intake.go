// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/time/rate"
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
