// SPDX-License-Identifier: Apache-2.0

/*
Package output prints the results of commands in the formats of kubectl, and shows progress and questions on a terminal.

# Usage

	t := output.NewTerminal(os.Stdin, os.Stdout, os.Stderr)
	t.Step("creating %s", name)
	err := t.Ask(ctx, "Continue?")

	var f output.Format
	f.Bind(flags, "")
	...
	printer, err := f.Printer()
	err = printer.PrintObj(object, t.Out)

Data is written to Out, everything else to Err, so that a pipe gets data only.

# Considerations

The printers of objects come from k8s.io/cli-runtime, so that scripts get the same output as from kubectl.
Only the package printers is used: the flags of cli-runtime would add kustomize and the resource builder to the
program, three megabytes that nothing here needs.

Symbols and colours are for terminals; each stream is judged for itself. Where NO_COLOR is set, or TERM is dumb, words
replace them, as in files and pipes: a log stays greppable. Output is never moved or overwritten, so that nothing has to
be restored on a terminal that is slow or recorded.

A question without a terminal, with a pipe as the standard input, is an error and not a yes.
*/
package output
