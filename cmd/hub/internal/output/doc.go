// SPDX-License-Identifier: Apache-2.0

/*
Package output prints objects in the forms that kubectl has: tables, JSON, YAML, names, and templates.

# Usage

	var f output.Format
	f.Bind(flags, "")
	...
	printer, err := f.Printer()
	err = printer.PrintObj(object, os.Stdout)

# Considerations

The printers are those of k8s.io/cli-runtime, so that what a script got from kubectl it gets from here.
Only its package printers is used: its flags would bring kustomize and the resource builder into the
program, three megabytes that nothing here needs.
*/
package output
