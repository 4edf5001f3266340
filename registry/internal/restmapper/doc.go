// SPDX-License-Identifier: Apache-2.0

/*
Package restmapper discovers which kinds an API server serves and maps between kinds and resources. Apps whose remotes
serve the same discovery documents share one mapping: a mapping of its own would be more than a third of the heap of an
idle app, and most fleets consist of a few kinds of clusters.

The API server is not trusted. The sizes of its documents are limited before they are decoded, and the key of a shared
mapping is a hash of the documents, computed here, so that a remote can only affect its own mapping.

The documents of a remote may be requested before its app starts, beside the question which cluster it is: see Early. They
are small and undecoded until the app uses them.

Start with Mappings.NewMapper, which returns the meta.RESTMapper of one app. The mapper discovers again when a caller
requests a kind that its mapping does not contain.
*/
package restmapper
