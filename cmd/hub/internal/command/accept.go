// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const acceptExample = `  # After the administrator of the remote has applied what register --export has printed, and has sent the fingerprint and the token
  %s accept edge-eu-1 sha256:4f1e... --token-file token.yaml

  # The agent has a new key
  %s accept edge-eu-1 sha256:9ab2...`

func newAccept(p Program) *cobra.Command {
	var todo enroll.Acceptance
	var file string
	var wait bool
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "accept NAME FINGERPRINT",
		Short: "Accept the agent of a remote that another team administers",
		Long: "Accept the agent of a remote, by the fingerprint of its key: the second half of a registration with register --export.\n" +
			"Compare the fingerprint with the administrator of the remote by a way that you trust: whoever has the key of the\n" +
			"agent can keep the hub from the remote, though not read or change what goes through.\n\n" +
			"The file of --token-file is the Secret with the token of the hub's account in the remote, as kubectl get -o yaml\n" +
			"prints it; - is the standard input. Without it, the hub keeps the token that it has.\n\n" + exitCodesWaiting,
		Example: p.example(acceptExample),
		Args:    output.Between(2, 2, "the name of the Cluster and the fingerprint of its agent's key"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) (err error) {
			ctx := cmd.Context()
			s.placeHub(&todo.Place, hub, args[0])
			todo.Key = args[1]
			if file != "" {
				if todo.Token, err = readInput(cmd.InOrStdin(), file); err != nil {
					return err
				}
			}
			if !wait {
				todo.Timeout = 0
			}
			if err := todo.Prepare(ctx); err != nil {
				return err
			}
			if err := todo.Run(ctx); err != nil {
				return err
			}
			return s.terminal.Print("cluster.clusterfx.dev/%s accepted", todo.Name)
		}),
	}
	set := cmd.Flags()
	set.StringVar(&file, "token-file", "", "File with the Secret of the token in the remote, or - for the standard input")
	set.BoolVar(&wait, "wait", true, "Wait until the Cluster is Ready")
	set.DurationVar(&todo.Timeout, "timeout", defaultWait, "How long to wait for the hub")
	s.bind(cmd, true)
	cmd.ValidArgsFunction = s.completeClusters(false)
	return cmd
}
