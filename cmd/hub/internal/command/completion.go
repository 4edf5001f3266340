// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
)

const completionExample = `  # For this shell
  source <(%s completion bash)

  # For every zsh
  %s completion zsh > "${fpath[1]}/_%s"

  # As a kubectl plugin: kubectl calls this program for completions, too
  ln -s "$(command -v %s)" ~/bin/kubectl-clusterfx
  printf '#!/bin/sh\nexec kubectl-clusterfx __complete "$@"\n' > ~/bin/kubectl_complete-clusterfx
  chmod +x ~/bin/kubectl_complete-clusterfx`

func newCompletion(p Program) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands, flags and the names of Clusters",
		Long: "Print a script for a shell that completes commands, flags, the names of Clusters, which it reads from the\n" +
			"hub's cluster, and the names of modules.\n\n" + exitCodes,
		Example:   p.example(completionExample),
		Args:      arguments.Name("the shell: bash, zsh, fish or powershell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(p.Stdout)
			case "fish":
				return root.GenFishCompletion(p.Stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(p.Stdout)
			}
			return fmt.Errorf("%q is not a shell that this can complete for: use bash, zsh, fish or powershell", args[0])
		},
	}
}
