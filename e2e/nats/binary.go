// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// The module has its version, since the command dev runs the same server.
const serverModule = "github.com/nats-io/nats-server/v2"

// binary builds the program if it is missing. Several processes may do so at once.
var binary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // The program is built once.
	ctx := context.Background() //nolint:forbidigo // The build is for all tests of the process.
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of the module: %w", err)
	}
	dir := strings.TrimSpace(string(root))
	version := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", serverModule)
	version.Dir = dir
	out, err := version.Output()
	if err != nil {
		return "", fmt.Errorf("find the version of %s: %w", serverModule, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	path := filepath.Join(cache, "clusterfx", "nats", strings.TrimSpace(string(out)), "nats-server")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, build(ctx, dir, path)
})

// build renames at the end.
func build(ctx context.Context, dir, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", part, serverModule)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", serverModule, err)
	}
	return os.Rename(part, path)
}
