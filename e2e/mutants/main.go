// SPDX-License-Identifier: Apache-2.0

// Command mutants shows that the tests notice defects of the code. It breaks the code in one place at a time, in a copy
// that only the compiler sees, and runs the tests that must fail then. A mutant that no test catches survives, and its
// defect is not tested.
//
// Four lists are about what would cost users most: the gate, the fence, the identity of clusters, and the addresses and rights
// of credentials. Their tests run with -short, as make test runs them. The list slow has what only the suites in e2e show:
// each of its mutants survives the tests with -short of the package that it changes.
//
//	mutants              # all of them
//	mutants gate fence   # the mutants of two lists, or with these words in their description
//
// The flag -parallel is the number of concurrent mutants; tests wait more than they compute. It runs in the root of the
// module. It exits with 1 if a mutant survives, or if a mutant cannot be tried: because the text that it replaces does
// not occur exactly once, because it does not compile, or because its tests fail without it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	parallel := flag.Int("parallel", 2, "how many mutants are tried at once")
	flag.Parse()
	err := run(ctx, *parallel, flag.Args())
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parallel int, words []string) error {
	all, err := readLists()
	if err != nil {
		return err
	}
	chosen := choose(all, words)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant matches %q", words)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &runner{root: ".", dir: dir, parallel: parallel, report: report{out: os.Stdout}}
	return r.runAll(ctx, chosen)
}
