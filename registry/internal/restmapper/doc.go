// SPDX-License-Identifier: Apache-2.0

/*
Package restmapper discovers what an API server serves. Apps whose remotes have the same discovery documents share one
mapping, which would be a third of an idle app's heap.

The API server is not trusted: documents are limited before they are decoded, and the key of a mapping is a hash
computed here, so that a remote affects only itself. Documents may be requested before the app starts (Early). Start
with Mappings.NewMapper; its mapper discovers again for a kind that it lacks.
*/
package restmapper
