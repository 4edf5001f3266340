// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// pages is what the pages of one list have brought so far. client-go keeps them all until the last one
// has come, and only then hands on their objects, which are counted on their way. A remote that always
// has another page would fill the hub's memory before that.
type pages struct {
	count int
	Amount
}

// maxPages bounds how often a list may go on. With 500 objects each they have more than any budget.
const maxPages = 5000

var errPages = errors.New("the list does not end: the API server always has another page")

// notePage takes note of a page. It fails the app and returns an error if the list is more than the
// budget allows.
func (s *Informer) notePage(page runtime.Object, more bool) error {
	sum := Amount{Objects: int64(meta.LenList(page))}
	if more || s.budget.isLarge() { // the objects of the first page are weighed on their way, too; see stock.take
		_ = meta.EachListItem(page, func(obj runtime.Object) error { // It fails for nothing that is a list.
			sum.Bytes += meter.Sizeof(obj)
			return nil
		})
	}
	s.mu.Lock()
	if !more {
		s.pages = pages{}
	}
	s.pages.count++
	s.pages.Amount = s.pages.Plus(sum)
	now := s.pages
	s.mu.Unlock()
	if now.count > maxPages {
		return fmt.Errorf("%w; %d so far", errPages, now.count)
	}
	if now.count == 1 {
		return nil // its objects are counted on their way; see stock.take
	}
	s.last.Store(&now.Amount)
	over := s.budget.exceeded(now.Amount)
	if over == nil {
		return nil
	}
	s.budget.options.Fail(over)
	return over
}
