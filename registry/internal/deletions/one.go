// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"bytes"
	"cmp"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// deleteOne decides about the delete of one object. A delete that would be held anyway, or that repeats one by its name, is first
// sent as a dry run, which tells the UID of the object: the delete of an object counts once.
func (c *call) deleteOne(r *http.Request, all *ledger.Ledger, ask ledger.Request, options *metav1.DeleteOptions) (*http.Response, error) {
	now := c.guard.options.Now()
	isRepeated := ask.UID == "" && all.Repeats(ask, now)
	if isRepeated || all.Left(ask, now) <= 0 {
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

// try sends a delete as a dry run. It returns the response of the API server if the object does not exist, is another one than the
// module has read, or cannot be deleted again now; otherwise the UID of the object, if the response has it. Without it, a module
// that deletes objects by their names, and does not know that they are gone, would ask for held deletes without end.
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

// acceptMetadata asks for the metadata of the object of a dry run. An API server that cannot send it alone sends the object.
const acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// maxAnswer is how much of a response to a delete is read, in bytes. The objects of larger ones are not known.
const maxAnswer = 256 << 10

// objectIn returns the UID of the object that was deleted, or "" if the response does not tell, and whether the object may still be
// there. The response can be read after that. It may be nil.
func objectIn(response *http.Response) (uid types.UID, mayBeLeft bool) {
	if response == nil || !isSuccess(response) {
		return "", true
	}
	rest := response.Body
	body, _ := io.ReadAll(io.LimitReader(rest, maxAnswer)) // The caller gets the error from rest.
	response.Body = readCloser{io.MultiReader(bytes.NewReader(body), rest), rest}
	var object metav1.PartialObjectMetadata
	var status metav1.Status // of an object that is gone
	decode := decodeJSON
	if bytes.HasPrefix(body, []byte(protobufPrefix)) {
		decode = decodeProtobuf
	}
	if decode(body, &object) == nil && object.UID != "" {
		return object.UID, true
	}
	if decode(body, &status) == nil && status.Details != nil {
		return status.Details.UID, false
	}
	return "", true
}
