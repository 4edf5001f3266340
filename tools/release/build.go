// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

type binary struct {
	platform platform
	path     string
}

// binaries builds the hub for each platform.
func (r *release) binaries(ctx context.Context) ([]binary, error) {
	var all []binary
	for _, p := range r.platforms {
		b, err := r.build(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("build the hub for %s: %w", p, err)
		}
		all = append(all, b)
	}
	return all, nil
}

// The settings of the machine and of the user that a binary would show.
func settings(p platform) []string {
	return []string{
		"GOOS=" + p.system, "GOARCH=" + p.processor, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
	}
}

func (r *release) build(ctx context.Context, p platform) (binary, error) {
	b := binary{p, filepath.Join(r.temp, p.system, p.processor, "hub")}
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.path, program)
	cmd.Dir = r.repository
	cmd.Env = append(os.Environ(), settings(p)...)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return b, err
	}
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return b, err
	}
	if info.Main.Version != r.version {
		return b, fmt.Errorf("the binary says that it is %s: go build takes the version from the tag", info.Main.Version)
	}
	r.goVersion = info.GoVersion
	r.say("built %s with %s in %s", p, info.GoVersion, time.Since(begin).Round(time.Second))
	return b, nil
}

// manifests lets the hub of this machine print what it installs.
func (r *release) manifests(ctx context.Context, binaries []binary) error {
	here := platform{runtime.GOOS, runtime.GOARCH}
	i := slices.IndexFunc(binaries, func(b binary) bool { return b.platform == here })
	if i < 0 {
		own, err := r.build(ctx, here)
		if err != nil {
			return err
		}
		i, binaries = 0, []binary{own}
	}
	cmd := exec.CommandContext(ctx, binaries[i].path, "install", "--export", "--image", image+":"+r.version)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, &problems)
	}
	return os.WriteFile(r.file("install.yaml"), out.Bytes(), 0o644)
}
