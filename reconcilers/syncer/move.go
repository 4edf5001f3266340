// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// leave deletes the copies at earlier addresses: a selected original must have its copy at the right one. It reports whether there is
// none left, as far as this process knows.
func (s *Session[T]) leave(ctx context.Context, isSelected bool) (left bool, err error) {
	for _, name := range s.of.memory.FormersOf(s.key) {
		if err := s.leaveOne(ctx, name, isSelected); err != nil {
			return false, err
		}
	}
	return len(s.of.memory.FormersOf(s.key)) == 0, nil
}

func (s *Session[T]) leaveOne(ctx context.Context, name types.NamespacedName, isSelected bool) error {
	r := s.of
	found, state, err := s.liveDown(ctx, name)
	if err != nil {
		return err
	}
	if up, isFormer := translate.FormerOf(r.translator, found); state == absent || !isFormer || up != s.key {
		r.memory.Left(s.key, name)
		return nil
	}
	if state == terminating {
		return nil
	}
	judge := s.evidence
	if isSelected {
		judge = r.pair.giveUp
	}
	if ctx, err = judge(ctx); err != nil {
		return err
	}
	if r.options.Observe {
		return s.wouldWrite(ctx, verbDelete, "the copy "+name.String())
	}
	if found, err = r.mutate(ctx, downstreamSide, verbDelete, found); err != nil {
		return err
	}
	if err = s.deleteCopy(ctx, found); err == nil && len(found.GetFinalizers()) == 0 {
		r.memory.Left(s.key, name)
	}
	return err
}
