// SPDX-License-Identifier: Apache-2.0

package state

import "github.com/clusterfx/clusterfx/registry/kubeconfig"

// maxMessage is how many bytes of text a Condition carries.
const maxMessage = 512

// Sanitize returns text as a condition can hold it: one line of printable characters, at most 512 bytes.
func Sanitize(text string) string { return kubeconfig.OneLine(text, maxMessage) }
