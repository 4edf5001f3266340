// SPDX-License-Identifier: Apache-2.0

package rules

// The reasons of the events of originals that only this module has. The others are those of package syncer.
const (
	// ReasonPatchFailed means that a patch of the rule does not fit the original, so that it is not copied.
	ReasonPatchFailed = "PatchFailed"
	// ReasonCopyLeftBehind means that an original is deleted although its copy may still exist. The hub and the command line
	// record it.
	ReasonCopyLeftBehind = "CopyLeftBehind"
)
