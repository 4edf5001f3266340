// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/internal/allocated"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

func (i *Informer) receive(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		allocated.Reduce(i.gvk, o)
	}
	if i.transform != nil {
		var err error
		if obj, err = i.transform(obj); err != nil {
			return nil, err
		}
	}
	i.budget.spend(i.count(obj))
	return obj, nil
}

// count returns by how much the upper bound grows.
func (i *Informer) count(obj any) Amount {
	i.notes.Lock()
	defer i.notes.Unlock()
	one := Amount{1, i.sizeOf(obj)}
	i.arrived = i.arrived.plus(one)
	return one
}

// The first objects, and a random sample of the others, are estimated on their way into the store. An estimate takes
// about as long as decoding, counting does not.
const (
	sampleAll   = 8
	sampleOneIn = 32
)

// sizeOf estimates each object in an app that has a good part of its budget: a remote that knows the sampling could
// send large objects among small ones. It needs the lock.
func (i *Informer) sizeOf(obj any) int64 {
	if i.sample.Objects >= sampleAll && rand.Uint32N(sampleOneIn) > 0 && !i.budget.isLarge() {
		return i.sample.Bytes / i.sample.Objects
	}
	weight := meter.Sizeof(obj)
	i.sample = i.sample.plus(Amount{1, weight})
	return weight
}

func (i *Informer) begin() {
	since := i.LastSyncResourceVersion()
	i.notes.Lock()
	defer i.notes.Unlock()
	i.listVersion, i.arrived = since, Amount{}
}

func (i *Informer) listing() bool {
	if !i.HasSynced() {
		return true
	}
	i.notes.Lock()
	since := i.listVersion
	i.notes.Unlock()
	return i.LastSyncResourceVersion() == since
}

// sampleStored is the number of stored objects whose size a measurement estimates, unless the app is large, or it is to be exact.
const sampleStored = 256

func (i *Informer) measure() Amount {
	listing, stored := i.listing(), i.GetStore().List()
	sum := Amount{Objects: int64(len(stored)), Bytes: i.sizeOfStored(stored)}
	i.notes.Lock()
	defer i.notes.Unlock()
	if listing {
		sum = Amount{max(sum.Objects, i.arrived.Objects), max(sum.Bytes, i.arrived.Bytes)}
	}
	i.measured.Store(&sum)
	return sum
}

func (i *Informer) sizeOfStored(all []any) int64 {
	sample := len(all)
	if !i.budget.isLarge() && !i.budget.exact.Load() {
		sample = min(sample, sampleStored)
	}
	if sample == 0 {
		return 0
	}
	return meter.Sizeof(all[:sample]...) * int64(len(all)) / int64(sample) // a store lists in random order
}

// pages adds up the pages of a list: client-go keeps all pages, and passes on their objects only after the last.
// Without it endless pages would fill the hub's memory.
type pages struct {
	count int
	Amount
}

// maxPages of 500 objects each exceed any budget.
const maxPages = 5000

var errEndless = errors.New("the list does not end: the API server always has another page")

// addPage fails the app if the list exceeds the budget.
func (i *Informer) addPage(page runtime.Object, more bool) error {
	sum := Amount{Objects: int64(meta.LenList(page))}
	if more || i.budget.isLarge() {
		_ = meta.EachListItem(page, func(obj runtime.Object) error { // It never fails for a list.
			sum.Bytes += meter.Sizeof(obj)
			return nil
		})
	}
	i.notes.Lock()
	if !more {
		i.pages = pages{}
	}
	i.pages.count++
	i.pages.Amount = i.pages.plus(sum)
	now := i.pages
	i.notes.Unlock()
	if now.count > maxPages {
		return fmt.Errorf("%w; %d so far", errEndless, now.count)
	}
	if now.count == 1 {
		return nil // receive counts its objects
	}
	i.measured.Store(&now.Amount)
	over := i.budget.exceeded(now.Amount)
	if over != nil {
		i.budget.options.Fail(over)
	}
	return over
}
