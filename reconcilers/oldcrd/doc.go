// SPDX-License-Identifier: Apache-2.0

/*
Package oldcrd writes the status of objects whose CRD may be older than the program. An API server refuses a whole apply if its
CRD lacks one field. A Writer then writes the others.

	var writer oldcrd.Writer // shared by all objects of the kind
	dropped, err := writer.Apply(ctx, client.Status(), desired, client.FieldOwner("me"))

It remembers the fields for ten minutes, so that a new CRD is noticed; Known removes them before a comparison. They come from
the text of the refusal, which has no reason, since the OpenAPI document needs permissions and is late.
*/
package oldcrd
