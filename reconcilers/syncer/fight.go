// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"
	"time"
)

// checkFight fails if another client has set a field too often. A field counts if it differs although the pair has
// written the same value before.
func (s *Session[T]) checkFight(ctx context.Context, path string, sent uint64) error {
	if path == "" || s.of.memory.Last(s.key).Desired != sent {
		return nil
	}
	return s.fight(ctx, path, fmt.Sprintf("the field %s of downstream %s %s", path, s.of.kind.Kind, s.name))
}

func (s *Session[T]) checkStatusFight(ctx context.Context, sent uint64) error {
	if s.of.memory.Last(s.key).Status.Sent != sent {
		return nil
	}
	return s.fight(ctx, "status", fmt.Sprintf("the status of upstream %s %s", s.of.kind.Kind, s.key))
}

func (s *Session[T]) fight(ctx context.Context, field, what string) error {
	r := s.of
	pause := r.fights.Record(s.key, field, time.Now())
	if pause == 0 {
		return nil
	}
	r.pair.metrics.contended(r.kind.Kind)
	err := s.notify(ctx, note{reason: ReasonContended, warning: true, text: fmt.Sprintf(
		"Another client changes %s each time that the pair writes it; the pair writes it less often. "+
			"Exclude the field from the pair, or keep the other client from writing it.", what)})
	if err != nil {
		return err
	}
	return &laterError{after: pause, why: "another client changes the same field"}
}
