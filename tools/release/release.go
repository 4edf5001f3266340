// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	mainModule = "github.com/clusterfx/clusterfx"
	program    = "./cmd/hub"
	image      = "ghcr.io/clusterfx/hub"
)

type platform struct{ system, processor string }

func (p platform) String() string { return p.system + "/" + p.processor }

type release struct {
	repository string
	version    string
	platforms  []platform
	key        dsse.SignerVerifier
	log        io.Writer

	// What check has found out.
	commit string
	time   time.Time
	// goVersion is that of the compiler, with its patch version.
	goVersion string
	// dir has the finished files, and temp what they are made of.
	dir, temp string
}

// make writes all files, or says why there are none.
func (r *release) make(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	final := filepath.Join(r.repository, "dist", r.version)
	if _, err := os.Stat(final); err == nil {
		return fmt.Errorf("%s exists: remove it to make the release again", final)
	}
	unfinished := filepath.Join(r.repository, "dist", ".unfinished-"+r.version)
	if err := r.sweep(unfinished); err != nil {
		return err
	}
	r.dir, r.temp = filepath.Join(unfinished, "files"), filepath.Join(unfinished, "temp")
	for _, dir := range []string{r.dir, r.temp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a folder for the files: %w", err)
		}
	}
	if err := r.files(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: unfinished files are in %s, and the next run removes them", unfinished)
		}
		return err
	}
	if err := os.Rename(r.dir, final); err != nil {
		return fmt.Errorf("move the finished files: %w", err)
	}
	r.say("the files of %s are in %s", r.version, final)
	return os.RemoveAll(unfinished)
}

// sweep removes what an interrupted run has left, and says so.
func (r *release) sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) == 0 {
		return err
	}
	r.say("an interrupted run has left %d files in %s: they are removed", len(left), dir)
	return os.RemoveAll(dir)
}

func (r *release) files(ctx context.Context) error {
	binaries, err := r.binaries(ctx)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if err := r.archive(b); err != nil {
			return fmt.Errorf("pack the binary for %s: %w", b.platform, err)
		}
		if err := r.materials(b); err != nil {
			return fmt.Errorf("list the materials of the binary for %s: %w", b.platform, err)
		}
	}
	if err := r.image(binaries); err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	if err := r.chart(ctx); err != nil {
		return fmt.Errorf("pack the chart: %w", err)
	}
	if err := r.manifests(ctx, binaries); err != nil {
		return fmt.Errorf("write install.yaml: %w", err)
	}
	if err := r.provenance(ctx); err != nil {
		return fmt.Errorf("write the provenance: %w", err)
	}
	return r.checksums(ctx)
}

func (r *release) say(format string, args ...any) { _, _ = fmt.Fprintf(r.log, format+"\n", args...) }

// file is the path of a finished file.
func (r *release) file(name string) string { return filepath.Join(r.dir, name) }
