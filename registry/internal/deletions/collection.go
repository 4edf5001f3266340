// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// maxList is the size of a response to a dry run, in bytes.
const maxList = 64 << 20

var errList = errors.New("the response to the dry run is not a list")

// deleteAll counts with a dry run, which needs no further permission, and limits the delete to that number, since
// objects may have been added in between.
func (c *call) deleteAll(r *http.Request, ask ledger.Request, options *metav1.DeleteOptions) (*http.Response, error) {
	if options == nil {
		return transport.Refuse(r, c.held(deletes.LimitExceeded, errOptions))
	}
	closeBody(r) // Its options are sent again.
	left := max(c.guard.ledger.Left(ask, c.guard.options.Now()), 0)
	found, refusal, err := c.count(r, options, left)
	if err != nil || refusal != nil {
		return refusal, err
	}
	if found.deleted() == 0 { // Nothing is deleted and nothing counts. The caller gets the response in its own format.
		dry, err := dryRun(limitedTo(r, 1), options)
		if err != nil {
			return nil, err
		}
		return c.send(dry)
	}
	ask.Objects = found.deleted()
	limited, err := withOptions(limitedTo(r, found.all), options)
	if err != nil {
		return nil, err
	}
	return c.sendCounted(limited, ask)
}

// dryRun says so in its query, too, for readers of an audit log: the API server reads the body only.
func dryRun(r *http.Request, options *metav1.DeleteOptions) (*http.Request, error) {
	dry := options.DeepCopy()
	dry.DryRun = []string{metav1.DryRunAll}
	r, err := withOptions(r, dry)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	r.URL.RawQuery = query.Encode()
	return r, nil
}

func limitedTo(r *http.Request, objects int) *http.Request {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("limit", strconv.Itoa(objects))
	r.URL.RawQuery = query.Encode()
	return r
}

type collection struct{ all, terminating int }

func (c collection) deleted() int { return c.all - c.terminating }

// count looks for one more object than may be deleted, or returns the API server's refusal. Objects that are being
// deleted may come first, so it asks for more until others are found.
func (c *call) count(r *http.Request, options *metav1.DeleteOptions, left int) (collection, *http.Response, error) {
	asked, err := strconv.Atoi(r.URL.Query().Get("limit"))
	isLimited := err == nil && asked > 0
	for limit := left + 1; ; limit *= 2 {
		if isLimited {
			limit = min(limit, asked)
		}
		found, refusal, err := c.countUpTo(r, options, limit)
		if err != nil || refusal != nil {
			return found, refusal, err
		}
		if found.all < limit || found.deleted() > left || isLimited && limit == asked {
			return found, nil, nil
		}
	}
}

func (c *call) countUpTo(r *http.Request, options *metav1.DeleteOptions, limit int) (found collection, refusal *http.Response, err error) {
	r, err = dryRun(limitedTo(r, limit), options)
	if err != nil {
		return found, nil, err
	}
	// The metadata is enough. An API server that cannot send it alone sends the objects.
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	response, err := c.send(r)
	if err != nil || !isSuccess(response) {
		return found, response, err
	}
	defer response.Body.Close()
	var list struct {
		Items []struct {
			Metadata struct {
				DeletionTimestamp string `json:"deletionTimestamp"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxList)).Decode(&list); err != nil {
		return found, nil, fmt.Errorf("read how many objects the delete of a collection would delete: %w", errList)
	}
	found.all = len(list.Items)
	for _, one := range list.Items {
		if one.Metadata.DeletionTimestamp != "" {
			found.terminating++
		}
	}
	return found, nil, nil
}
