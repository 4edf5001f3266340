// SPDX-License-Identifier: Apache-2.0

/*
Package arguments explains errors in the arguments and flags of a command, with the right syntax, and in the YAML files that they name,
with the path of the field.

# Usage

	root.SetFlagErrorFunc(arguments.ExplainFlag)
	cmd.Args = arguments.None
	cmd.Args = arguments.Name("the name of the Cluster")
	err = arguments.ExplainCommand(root, args, root.ExecuteContext(ctx))

# Considerations

The messages of cobra and pflag name the counted or parsed arguments ("accepts 1 arg(s), received 0"), and not the missing
argument. So commands use the checks of this package in place of cobra's, and a test calls every command of the
program with wrong arguments and flags.
*/
package arguments
