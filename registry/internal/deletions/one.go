// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"bytes"
	"cmp"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/wire"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// deleteOne sends a delete that would be held, or that repeats one by its name, as a dry run first, which tells the
// UID: the delete of an object counts once.
func (c *call) deleteOne(r *http.Request, ask ledger.Request, options *metav1.DeleteOptions) (*http.Response, error) {
	now := c.guard.options.Now()
	isRepeated := ask.UID == "" && c.guard.ledger.Repeats(ask, now)
	if isRepeated || c.guard.ledger.Left(ask, now) <= 0 {
		uid, refusal := c.try(r, options, isRepeated)
		if refusal != nil {
			return refusal, nil
		}
		if ask.UID == "" && uid != "" {
			ask.UID, options.Preconditions = uid, cmp.Or(options.Preconditions, &metav1.Preconditions{})
			options.Preconditions.UID = &uid
			exactly, err := withOptions(r, options)
			if err != nil {
				return transport.Refuse(r, err)
			}
			closeBody(r)
			r = exactly
		}
	}
	return c.sendCounted(r, ask)
}

// try sends a dry run. It returns the response if the object does not exist, is another one, or cannot be deleted now;
// otherwise the UID, if the response has it. Without it a module that deletes by names, and does not know what is gone,
// would ask for held deletes without end.
func (c *call) try(r *http.Request, options *metav1.DeleteOptions, isRepeated bool) (uid types.UID, refusal *http.Response) {
	dry, err := dryRun(r, options)
	if err != nil {
		return "", nil
	}
	dry.Header.Set("Accept", acceptMetadata)
	response, err := c.send(dry)
	if err != nil {
		return "", nil
	}
	code := response.StatusCode
	if code == http.StatusNotFound || code == http.StatusConflict || isRepeated && code >= http.StatusInternalServerError {
		closeBody(r)
		return "", response
	}
	defer response.Body.Close()
	uid, _ = objectIn(response)
	return uid, nil
}

// acceptMetadata: an API server that cannot send metadata alone sends the object.
const acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// maxAnswer bytes of a response to a delete are read. The objects of larger ones are not known.
const maxAnswer = 256 << 10

// objectIn returns the UID of the deleted object, or "", and whether it may still be there. The response, which may be
// nil, can still be read.
func objectIn(response *http.Response) (uid types.UID, mayBeLeft bool) {
	if response == nil || !isSuccess(response) {
		return "", true
	}
	rest := response.Body
	body, _ := io.ReadAll(io.LimitReader(rest, maxAnswer)) // The caller gets the error from rest.
	response.Body = readCloser{io.MultiReader(bytes.NewReader(body), rest), rest}
	var object metav1.PartialObjectMetadata
	var status metav1.Status // of an object that is gone
	form := response.Header.Get("Content-Type")
	if _, err := wire.Decode(form, body, &object); err == nil && object.UID != "" {
		return object.UID, true
	}
	if _, err := wire.Decode(form, body, &status); err == nil && status.Details != nil {
		return status.Details.UID, false
	}
	return "", true
}
