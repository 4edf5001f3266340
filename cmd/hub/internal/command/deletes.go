// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const deletesExample = `  # The holds of deletes that are in force
  %s deletes ls

  # Let the deletes of a hold pass
  %s deletes allow quota-configmaps-7f3a`

const listDeletesExample = `  # The holds that are in force, and some of the objects that are not deleted
  %s deletes ls
  %s deletes ls -o wide

  # The modules whose deletes are held in all clusters, for a script
  %s deletes ls -o json | jq -r '.items[] | select(.fleet).module'`

const allowDeletesExample = `  # Allow the deletes that are known to wait
  %s deletes allow quota-configmaps-7f3a

  # Allow five, look at the result, and allow the others
  %s deletes allow quota-configmaps-7f3a --at-most 5
  %s deletes ls
  %s deletes allow quota-configmaps-7f3a`

func newDeletes(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:   "deletes",
		Short: "List held deletes of modules, or allow them",
		Long: "List held deletes of modules, or allow them.\n\n" +
			"The hub holds the deletes of a module that deletes more objects than its limits allow. A hold ends by itself when\n" +
			"the module has not asked for any of these deletes for ten minutes, because its source is back.",
		Example: p.example(deletesExample),
	}, newListDeletes(p), newAllowDeletes(p))
}

func newListDeletes(p Program) *cobra.Command {
	var format output.Format
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the holds of deletes",
		Long: "List the holds of deletes that are in force: the module, the cluster and the resource whose deletes are held, how\n" +
			"many objects were deleted within ten minutes before, how many deletes at least wait, and how many an operator has\n" +
			"allowed. The hub brings the numbers up to date every five seconds. The wide table names objects whose\n" +
			"deletes wait.\n\n" + connectionHelp + "\n\n" + exitCodes,
		Example: p.example(listDeletesExample),
		Args:    output.None,
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, _ []string) error {
			held := inspect.Deletes{Cluster: hub, Namespace: s.hub.Namespace}
			err := held.Print(cmd.Context(), format, s.terminal.Out)
			if errors.Is(err, inspect.ErrNone) {
				s.terminal.Text("No deletes are held.")
				return nil
			}
			return err
		}),
	}
	format.BindList(cmd.Flags())
	s.bind(cmd, true)
	return cmd
}

func newAllowDeletes(p Program) *cobra.Command {
	var further int
	s := &session{program: p}
	cmd := &cobra.Command{
		Use:   "allow ID",
		Short: "Allow the deletes of a hold",
		Long: "Allow the deletes of a hold: those that are known to wait, or, with --at-most, so many in addition to the\n" +
			"deletes that the hold has allowed before. The module repeats its deletes within 40 seconds. The hold\n" +
			"stays in force for further deletes.\n\n" +
			"The command sets the annotation clusterfx.dev/allow-deletes, whose value is the id and the total of allowed\n" +
			"deletes: on the Cluster, or on the ConfigMap clusterfx-deletes for a hold in the hub or in all clusters.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(allowDeletesExample),
		Args:    output.OneName("the id of a hold"),
		RunE: s.onHub(func(cmd *cobra.Command, hub *access.Cluster, args []string) error {
			if cmd.Flags().Changed("at-most") && further < 1 {
				return fmt.Errorf("--at-most=%d: allow one delete or more", further)
			}
			held := inspect.Deletes{Cluster: hub, Namespace: s.hub.Namespace}
			done, err := held.Allow(cmd.Context(), args[0], further)
			if err != nil {
				return err
			}
			return s.terminal.Print("%s", describeAllowed(done))
		}),
	}
	cmd.Flags().IntVar(&further, "at-most", 0, "How many deletes to allow in addition to those that were allowed before. Default: those that are known to wait")
	s.bind(cmd, true)
	return cmd
}

func describeAllowed(done inspect.Allowed) string {
	h := done.Hold
	text := fmt.Sprintf("hold/%s allows deletes of %s by module %s in %s: ", h.ID, h.What(), h.Module, h.Where())
	switch done.Further {
	case 0:
		return text + fmt.Sprintf("%d, as before", done.Total)
	case done.Total:
		return text + fmt.Sprint(done.Total)
	}
	return text + fmt.Sprintf("%d further, %d in all", done.Further, done.Total)
}
