// SPDX-License-Identifier: Apache-2.0

/*
Command benchtable runs benchmarks in turns and prints a Markdown table of their results: the median of each metric, with
the range.

	benchtable -runs 3 'go test -bench Engage/floor ./registry' 'go test -bench Engage/registry ./registry'

Each argument is a command line for /bin/sh. A round runs each of them once, one after the other, so that a change of the
load of the machine affects all of them; each is a process of its own, so that none finds what another one has left in
memory. A column is a benchmark, by the last part of its name, and a row is a metric. The output of the commands goes to the
standard error. The exit status is 1 if a command fails.
*/
package main
