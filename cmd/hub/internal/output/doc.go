// SPDX-License-Identifier: Apache-2.0

/*
Package output prints results in the formats of kubectl, and shows progress and questions on a terminal.

	t := output.NewTerminal(os.Stdin, os.Stdout, os.Stderr)
	t.Step("creating %s", name)
	err := t.Ask(ctx, "Continue?")

	var f output.Format
	f.Bind(flags, "")
	...
	err = f.Print(t.Out, list)

Data goes to Out, everything else to Err. The printers are those of k8s.io/cli-runtime, of which only that package is
used: its flags would add three megabytes. Symbols and colours are for terminals, each stream judged alone; words
replace them in files and pipes, with NO_COLOR and TERM=dumb. Output is never moved or overwritten. A question without
a terminal is an error and not a yes.
*/
package output
