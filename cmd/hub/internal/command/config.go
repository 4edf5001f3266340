// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
)

const configExample = `  # Is the file right?
  %s config validate hub.yaml`

// newConfig returns the command config, with the command validate below it.
func newConfig(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check the configuration file of a hub",
		Long:    "Check the configuration file of a hub, which run --config, install --config and dev --config read.",
		Example: p.example(configExample),
		Args:    arguments.None,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files, without a cluster",
		Long: "Check configuration files: their fields, the names and values of flags, and the configuration of modules, with\n" +
			"the checks of the modules themselves. Every problem is printed with its file and field. It reads no cluster.\n\n" +
			"The command knows the modules of this program: check the file of a custom hub with that hub.\n\n" +
			"Exit status: 0 if all files are right, 1 if not.",
		Example: p.example(configExample),
		Args:    arguments.Some("the path of a configuration file"),
		RunE:    func(_ *cobra.Command, args []string) error { return p.validateFiles(args) },
	})
	return cmd
}

// validateFiles prints the problems of each file, in the order of the files.
func (p Program) validateFiles(paths []string) error {
	var status error
	for _, path := range paths {
		out, text := p.Stdout, path+" is right"
		if err := p.validateFile(path); err != nil {
			out, text, status = p.Stderr, err.Error(), process.ExitError(1)
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return status
}

// validateFile returns all problems of a configuration file, as the command run prints them.
func (p Program) validateFile(path string) error {
	text, err := hubconfig.ReadText(path)
	if err != nil {
		return err
	}
	_, err = hubconfig.CheckText(path, text, p.Modules)
	return err
}
