// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("use release make -version VERSION, or release verify -key FILE FOLDER")

func run(ctx context.Context, args []string, log io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	flags.SetOutput(log)
	key := flags.String("key", "", "PEM file of the key (ed25519): the private one to make, the public one to verify")
	switch args[0] {
	case "make":
		r := &release{log: log}
		if err := r.parse(flags, key, args[1:]); err != nil {
			return err
		}
		return r.make(ctx)
	case "verify":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 || *key == "" {
			return errUsage
		}
		return verify(ctx, flags.Arg(0), *key, log)
	}
	return errUsage
}

// parse reads the flags of make.
func (r *release) parse(flags *flag.FlagSet, key *string, args []string) error {
	flags.StringVar(&r.repository, "repository", "../..", "Folder of the repository")
	flags.StringVar(&r.version, "version", "", "Version to make: the tag, such as v0.1.0")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "Platforms of the binaries; those of linux have an image")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if r.repository, err = filepath.Abs(r.repository); err != nil {
		return err
	}
	for name := range strings.SplitSeq(*platforms, ",") {
		system, processor, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("-platforms: %q is none: use linux/amd64 and the like", name)
		}
		r.platforms = append(r.platforms, platform{system, processor})
	}
	r.key, err = readKey(*key)
	return err
}
