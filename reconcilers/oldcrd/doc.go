// SPDX-License-Identifier: Apache-2.0

/*
Package oldcrd writes the status of objects whose CRD may be older than the program.

An API server refuses a whole server-side apply if the CRD in it lacks one of the fields, and a hub may well be newer
than its CRD for a while. A Writer then leaves out the fields that the API server has named, and writes the remaining
fields:

	var writer oldcrd.Writer // shared by all objects of the kind
	dropped, err := writer.Apply(ctx, client.Status(), desired, client.FieldOwner("me"))

It remembers the fields for ten minutes, so that a new CRD is noticed. An old CRD costs two requests for each object
and field in that time: the API server refuses the request with the field, and the same request without it changes
nothing. Known removes the same fields from a status before it is compared with the status in the API server.

The fields come from the message of the refusal, because the response of the API server has no reason that identifies
it. The alternative, the published OpenAPI document, needs permissions that a hub may not have, and changes some time
after the CRD.
*/
package oldcrd
