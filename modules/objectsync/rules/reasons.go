// SPDX-License-Identifier: Apache-2.0

package rules

// Reasons of originals' events, besides those of package syncer.
const (
	// ReasonPatchFailed: a patch does not fit the original, which is not copied.
	ReasonPatchFailed = "PatchFailed"
	// ReasonCopyLeftBehind: an original is deleted although its copy may exist. The hub and the command line record
	// it.
	ReasonCopyLeftBehind = "CopyLeftBehind"
)
