// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// pagination adds up the pages of a list: client-go keeps all pages, and passes on their objects only after the last.
// Without it endless pages would fill the hub's memory.
type pagination struct {
	count int
	Amount
}

// maxPages of 500 objects each exceed any budget.
const maxPages = 5000

var errEndless = errors.New("the list does not end: the API server always has another page")

// addPage fails the app if the list exceeds the budget.
func (i *Informer) addPage(page runtime.Object, more bool) error {
	sum := Amount{Objects: int64(meta.LenList(page))}
	if more || i.budget.isLarge() { // the transform counts the objects of the first page, too; see Informer.receive
		_ = meta.EachListItem(page, func(obj runtime.Object) error { // It never fails for a list.
			sum.Bytes += meter.Sizeof(obj)
			return nil
		})
	}
	i.mu.Lock()
	if !more {
		i.pagination = pagination{}
	}
	i.pagination.count++
	i.pagination.Amount = i.pagination.plus(sum)
	now := i.pagination
	i.mu.Unlock()
	if now.count > maxPages {
		return fmt.Errorf("%w; %d so far", errEndless, now.count)
	}
	if now.count == 1 {
		return nil // the transform counts its objects; see Informer.receive
	}
	i.measured.Store(&now.Amount)
	over := i.budget.exceeded(now.Amount)
	if over == nil {
		return nil
	}
	i.budget.options.Fail(over)
	return over
}
