// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// published are the folders of nested modules that users need: each has a tag of its own.
func published() []string { return []string{"modules/multiclusterruntime", "e2e/controlplane"} }

// check finds everything that is wrong with a release before anything is built.
func (r *release) check(ctx context.Context) error {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("VERSION=%q is no version: use one such as v0.1.0 or v0.2.0-rc.1", r.version)
	}
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the tree has changes: commit or remove them first\n%s", changed)
	}
	if r.commit, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	seconds, err := r.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of the commit: %w", err)
	}
	r.time = time.Unix(unix, 0).UTC()
	return errors.Join(r.checkTags(ctx), r.checkModules(), r.checkChart(), r.checkCRD(), r.checkChangelog())
}

func (r *release) checkTags(ctx context.Context) error {
	var errs []error
	var missing []string
	for _, tag := range r.tags() {
		commit, err := r.git(ctx, "rev-parse", "--quiet", "--verify", "refs/tags/"+tag+"^{commit}")
		switch {
		case err != nil:
			missing = append(missing, tag)
		case commit != r.commit:
			errs = append(errs, fmt.Errorf("the tag %s is commit %.12s, and the tree is %.12s: check out the tag", tag, commit, r.commit))
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("tags are missing: run git fetch --tags, or make them: for t in %s; do git tag -a -m $t $t; done",
			strings.Join(missing, " ")))
	}
	return errors.Join(errs...)
}

func (r *release) tags() []string {
	tags := []string{r.version}
	for _, dir := range published() {
		tags = append(tags, dir+"/"+r.version)
	}
	return tags
}

// checkModules: users of a nested module get what its go.mod requires, and no replace.
func (r *release) checkModules() error {
	var errs []error
	for _, dir := range append(published(), ".") {
		path := filepath.Join(r.repository, dir, "go.mod")
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := modfile.Parse(path, data, nil)
		if err != nil {
			return err
		}
		if dir == "." && len(file.Replace) > 0 {
			errs = append(errs, fmt.Errorf("%s has a replace, which users do not get", path))
		}
		for _, require := range file.Require {
			if require.Mod.Path == mainModule && require.Mod.Version != r.version {
				errs = append(errs, fmt.Errorf("%s requires %s %s: run go mod edit -require=%s@%s in its folder",
					path, mainModule, require.Mod.Version, mainModule, r.version))
			}
		}
	}
	return errors.Join(errs...)
}

const chartDir = "config/chart"

func (r *release) checkChart() error {
	data, err := os.ReadFile(filepath.Join(r.repository, chartDir, "Chart.yaml"))
	if err != nil {
		return err
	}
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	if chart.AppVersion != r.version || "v"+chart.Version != r.version {
		return fmt.Errorf("%s/Chart.yaml has version %s and appVersion %s: set both to the release", chartDir, chart.Version, chart.AppVersion)
	}
	return nil
}

// checkCRD: later releases compare their CRDs with these.
func (r *release) checkCRD() error {
	for current, kept := range map[string]string{
		"config/crd/clusterfx.dev_clusters.yaml":  "config/crd/released/" + r.version + ".yaml",
		"config/crd/clusterfx.dev_syncrules.yaml": "config/crd/released/syncrules_" + r.version + ".yaml",
	} {
		ours, err := os.ReadFile(filepath.Join(r.repository, current))
		if err != nil {
			return err
		}
		theirs, err := os.ReadFile(filepath.Join(r.repository, kept))
		if err != nil || !bytes.Equal(ours, theirs) {
			return fmt.Errorf("%s is not the CRD of this release: run cp %s %s", kept, current, kept)
		}
	}
	return nil
}

func (r *release) checkChangelog() error {
	text, err := os.ReadFile(filepath.Join(r.repository, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "\n## "+r.version+"\n") {
		return fmt.Errorf("CHANGELOG.md has no section %s: rename Unreleased", r.version)
	}
	return nil
}

// git runs git in the repository.
func (r *release) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.repository
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
