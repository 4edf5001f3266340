// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const rotateExample = `  # Give the hub a new token for a remote, and revoke the old one
  %s rotate edge-eu-1 --cluster-context edge-eu-1-admin`

func newRotate(p Program) *cobra.Command {
	var remote access.RemoteFlags
	var todo enroll.Rotation
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "rotate NAME --cluster-context CONTEXT",
		Short: "Renew the credential of a remote that was registered with register",
		Long: "Renew the credential of a remote: mint a new token, try it, put it into the Secret in the hub, wait\n" +
			"until the hub reports that it uses it, and revoke the old one. The app of the remote continues without a gap.\n" +
			"It does not ask, and so has no flag --yes: the old token stays valid until the hub uses the new one, and\n" +
			"running the command again completes a rotation that was interrupted.\n\n" + connectionHelp + "\n\n" + exitCodesWaiting,
		Example: p.example(rotateExample),
		Args:    output.OneName("the name of the Cluster"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) error {
			ctx := cmd.Context()
			if err := checkLifetime(todo.Lifetime); err != nil {
				return err
			}
			if err := s.place(&todo.Place, hub, args[0], &remote); err != nil {
				return err
			}
			if err := todo.Prepare(ctx); err != nil {
				return err
			}
			if err := todo.RequireRights(ctx); err != nil {
				return err
			}
			if err := todo.Run(ctx); err != nil {
				return err
			}
			return s.terminal.Print("cluster.clusterfx.dev/%s rotated", todo.Name)
		}),
	}
	set := cmd.Flags()
	remote.Bind(set)
	set.Var(output.OneOf(&todo.Token, enroll.Requested, enroll.Lasting), "token-type", "request for a token that expires, secret for a token that does not. Default: the current type")
	bindLifetime(set, &todo.Lifetime)
	set.DurationVar(&todo.Timeout, "timeout", defaultWait, "How long to wait for the hub")
	s.bind(cmd, true)
	cmd.ValidArgsFunction = s.completeClusters(false)
	return cmd
}
