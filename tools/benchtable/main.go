// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1) //nolint:gocritic // There is nothing left to clean up.
	}
}

// run runs the commands in turns and prints the table.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("benchtable", flag.ContinueOnError)
	runs := flags.Int("runs", 3, "how many times each command runs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *runs < 1 {
		return errors.New("give at least one command, and at least one run")
	}
	results := newResults()
	for range *runs {
		for _, line := range flags.Args() {
			output, err := execute(ctx, line, progress)
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			results.add(output)
		}
	}
	if len(results.columns) == 0 {
		return errors.New("the commands have printed no results of benchmarks")
	}
	_, err := io.WriteString(out, results.table())
	return err
}

// execute runs a command line and returns its standard output.
func execute(ctx context.Context, line string, progress io.Writer) (string, error) {
	var output bytes.Buffer
	command := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	command.Stdout, command.Stderr = io.MultiWriter(&output, progress), progress
	err := command.Run()
	return output.String(), err
}
