// SPDX-License-Identifier: Apache-2.0

package app

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the command line of a hub. It goes by the name of the program, which is the
// user's own if the hub is.
func newRoot(p program) *cobra.Command {
	root := &cobra.Command{
		Use:   p.name(),
		Short: "A multicluster control plane in which every cluster is a dependency-injected application",
		// Errors are printed once, by execute, and a failure is no reason to explain the flags.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(p), newDev(p), newRBAC(p), newVersion())
	return root
}

// name is what the user calls the program.
func (p program) name() string { return filepath.Base(p.args[0]) }

// example puts the name of the program for each %s of a text.
func (p program) example(text string) string {
	return strings.ReplaceAll(text, "%s", p.name())
}
