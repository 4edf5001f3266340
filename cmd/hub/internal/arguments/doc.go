// SPDX-License-Identifier: Apache-2.0

/*
Package arguments explains errors in arguments and flags with the right syntax. The messages of cobra and pflag count
arguments ("accepts 1 arg(s), received 0") and do not name the missing one. It also reads YAML files that arguments name, and
names the path of each wrong field.

	root.SetFlagErrorFunc(arguments.ExplainFlag)
	cmd.Args = arguments.Name("the name of the Cluster")
	err = arguments.ExplainCommand(root, args, root.ExecuteContext(ctx))
*/
package arguments
