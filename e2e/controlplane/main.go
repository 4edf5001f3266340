// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const kubernetesModule = "k8s.io/kubernetes"

type tool struct {
	name, pkg string
	// usual is the build time on two cores with an empty cache, after the tools before.
	usual string
}

// The first program compiles most of the shared packages.
func tools() []tool {
	return []tool{
		{"kube-apiserver", kubernetesModule + "/cmd/kube-apiserver", "3 minutes"},
		{"kube-controller-manager", kubernetesModule + "/cmd/kube-controller-manager", "1 minute"},
		{"kubectl", kubernetesModule + "/cmd/kubectl", "half a minute"},
		{"etcd", "go.etcd.io/etcd/server/v3", "half a minute"},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	more, err := kinds(args)
	if err != nil {
		return err
	}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		err = checkAssets(assets, log)
	} else {
		err = buildVersion(ctx, "", tools(), log)
	}
	if err != nil {
		return err
	}
	for _, one := range more {
		if err := buildVersion(ctx, one.modfile, tools()[:1], log); err != nil {
			return err
		}
	}
	return nil
}

// buildVersion builds programs by a go.mod, or by that of this folder.
func buildVersion(ctx context.Context, modfile string, programs []tool, log io.Writer) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the cache folder: %w: set HOME or XDG_CACHE_HOME", err)
	}
	version, err := kubernetesVersion(ctx, modfile)
	if err != nil {
		return err
	}
	b := builder{
		dir:     filepath.Join(cache, "clusterfx", "controlplane", version),
		log:     log,
		compile: compiler(version, modfile, log),
	}
	return b.build(ctx, programs)
}

func checkAssets(dir string, log io.Writer) error {
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if !exists(filepath.Join(dir, name)) {
			return fmt.Errorf("KUBEBUILDER_ASSETS=%s holds no %s: complete it, or unset the variable to build from source",
				dir, name)
		}
	}
	say(log, "KUBEBUILDER_ASSETS is set: the programs in %s are used, nothing is built", dir)
	return nil
}

// kubernetesVersion reads a go.mod.
func kubernetesVersion(ctx context.Context, modfile string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-modfile="+modfile, "-m", "-f", "{{.Version}}", kubernetesModule)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("find the version of %s: %w: run this in e2e/controlplane", kubernetesModule, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func compiler(version, modfile string, log io.Writer) func(context.Context, tool, string) error {
	return func(ctx context.Context, t tool, file string) error {
		cmd := exec.CommandContext(ctx, "go", "build", "-modfile="+modfile, "-ldflags="+linkerFlags(version), "-o", file, t.pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdout, cmd.Stderr = log, log
		// The go command removes its temporary files when it is interrupted.
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		return cmd.Run()
	}
}

// linkerFlags stamp the version, as release builds of Kubernetes do, and leave out what only debuggers read.
func linkerFlags(version string) string {
	const stamp = " -X k8s.io/component-base/version."
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	return "-s -w" + stamp + "gitVersion=" + version + stamp + "gitMajor=" + major + stamp + "gitMinor=" + minor
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func say(log io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(log, format+"\n", args...)
}
