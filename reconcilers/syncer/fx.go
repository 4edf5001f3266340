// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"

	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// Item is a value of a pair for Start and AsSyncer. Make one with Of, OfFake or Part.
type Item struct {
	base     Base
	register func(p *Pair) error
	pair     string
}

// Of returns the Item of a Syncer.
func Of[T client.Object](s Syncer[T], t Translator[T], o Options[T]) Item {
	return Item{base: s, register: func(p *Pair) error { return Register(p, s, t, o) }}
}

// OfFake returns the Item of a FakeSyncer.
func OfFake[T client.Object](s FakeSyncer[T], o Options[T]) Item {
	return Item{base: s, register: func(p *Pair) error { return RegisterFake(p, s, o) }}
}

// Part returns the Item of a value that is no Syncer, such as an Initializer.
func Part(b Base) Item { return Item{base: b} }

// In returns the Item for one pair by name. Without it an Item belongs to every pair of the App.
func (i Item) In(pair string) Item {
	i.pair = pair
	return i
}

// Start adds Items in order: Init of each, RegisterIndices of each, then the controllers; those of a
// ControllerModifier or ControllerStarter when the manager's caches run. It returns the first error.
func Start(ctx context.Context, p *Pair, items ...Item) error {
	for _, i := range items {
		if one, ok := i.base.(Initializer); ok {
			if err := one.Init(ctx, p); err != nil {
				return fmt.Errorf("initialize %s: %w", i.base.Name(), err)
			}
		}
	}
	for _, i := range items {
		if one, ok := i.base.(IndexRegisterer); ok {
			if err := one.RegisterIndices(ctx, p); err != nil {
				return fmt.Errorf("register the indexes of %s: %w", i.base.Name(), err)
			}
		}
	}
	var late []Item
	for _, i := range items {
		if i.isLate() {
			late = append(late, i)
			continue
		}
		if err := i.add(ctx, p); err != nil {
			return err
		}
	}
	if len(late) == 0 {
		return nil
	}
	return p.options.Manager.Add(p.adds(late))
}

// adds is started by managers after their caches.
func (p *Pair) adds(late []Item) manager.RunnableFunc {
	return func(ctx context.Context) error {
		for _, i := range late {
			if err := i.add(ctx, p); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}
}

func (i Item) isLate() bool {
	_, modifier := i.base.(ControllerModifier)
	_, starter := i.base.(ControllerStarter)
	return modifier || starter
}

func (i Item) add(ctx context.Context, p *Pair) error {
	if i.register != nil {
		if err := i.register(p); err != nil {
			return err
		}
	}
	if one, ok := i.base.(ControllerStarter); ok {
		if err := one.Register(ctx, p); err != nil {
			return fmt.Errorf("register %s: %w", i.base.Name(), err)
		}
	}
	return nil
}

const group hubcontroller.Group = "syncers"

// Module returns an option that makes a pair in an App and starts the Items of AsSyncer. newPair takes values of the
// App and returns a *Pair and an error.
func Module(newPair any) fx.Option {
	start := func(l fx.Lifecycle, p *Pair, all []Item) {
		var items []Item
		for _, i := range all {
			if i.pair == "" || i.pair == p.Name() {
				items = append(items, i)
			}
		}
		// By then all invokes have run, those that add kinds too, and the manager has not started.
		l.Append(fx.StartHook(func(ctx context.Context) error { return Start(ctx, p, items...) }))
	}
	return fx.Module("syncer",
		fx.Provide(newPair, fx.Private),
		fx.Invoke(fx.Annotate(start, fx.ParamTags("", "", group.Tag()))),
	)
}

// AsSyncer returns an option that contributes an Item. The constructor takes values of the App and returns an Item,
// or an Item and an error.
func AsSyncer(constructor any) fx.Option {
	option, err := hubcontroller.Contribute[Item](group, constructor)
	if err != nil {
		return fx.Error(fmt.Errorf("%w: %w", ErrInvalidConfig, err))
	}
	return option
}
