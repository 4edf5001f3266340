// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/internal/wire"
)

type action int

const (
	other       action = iota
	deletesOne         // of one object
	deletesMany        // of a collection
	evictsOne          // of a Pod
	mayCreate          // one object: also a PUT, or a patch that applies
)

func actionOf(r *http.Request, info requestinfo.Info) action {
	switch {
	case info.Resource == "":
		return other
	case r.Method == http.MethodDelete && info.Subresource == "" && info.Name == "":
		return deletesMany
	case r.Method == http.MethodDelete && info.Subresource == "":
		return deletesOne
	case r.Method == http.MethodPost && info.Resource == "pods" && info.Subresource == "eviction":
		return evictsOne
	case r.Method == http.MethodPost && info.Name == "":
		return mayCreate
	case (r.Method == http.MethodPut || r.Method == http.MethodPatch) && info.Subresource == "":
		return mayCreate
	}
	return other
}

// mutates keeps reads to a comparison.
func mutates(method string) bool {
	return method == http.MethodDelete || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// isPassing: the objects are reports that come and go.
func isPassing(resource schema.GroupResource) bool {
	switch resource {
	case schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
		schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return true
	}
	return false
}

// maxOptions is the size of a delete's options, in bytes.
const maxOptions = 1 << 20

var errOptions = errors.New("the options of the delete cannot be read")

// optionsOf reads the body or, without one, the query. The body can still be sent. An error is one of the body, or
// wraps errOptions.
func optionsOf(r *http.Request, what action) (*metav1.DeleteOptions, error) {
	query, options := r.URL.Query(), &metav1.DeleteOptions{}
	if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, options, nil); err != nil {
		return nil, errOptions
	}
	if r.Body == nil || r.Body == http.NoBody {
		return options, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxOptions))
	if err != nil {
		return nil, err
	}
	rest := r.Body
	r.Body = readCloser{io.MultiReader(bytes.NewReader(body), rest), rest}
	if len(body) == 0 {
		return options, nil
	}
	said, form := &metav1.DeleteOptions{}, r.Header.Get("Content-Type")
	if what == evictsOne {
		var eviction policyv1.Eviction
		if _, err := wire.Decode(form, body, &eviction); err != nil {
			return nil, errOptions
		}
		if eviction.DeleteOptions != nil {
			said = eviction.DeleteOptions
		}
		said.DryRun = append(said.DryRun, options.DryRun...) // An eviction is a create: its query counts, too.
		return said, nil
	}
	if _, err := wire.Decode(form, body, said); err != nil {
		return nil, errOptions
	}
	return said, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

func isDryRun(dryRun []string) bool { return slices.Contains(dryRun, metav1.DryRunAll) }

func withOptions(r *http.Request, options *metav1.DeleteOptions) (*http.Request, error) {
	options = options.DeepCopy()
	options.Kind, options.APIVersion = "DeleteOptions", "v1"
	body, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("encode the options of the delete: %w", err)
	}
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Del("dryRun")
	r.URL.RawQuery = query.Encode()
	r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return r, nil
}
