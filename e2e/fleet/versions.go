// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Versions are the versions of kube-apiserver that `make controlplane KUBERNETES=1.31` builds, one for each minor, oldest first.
func Versions() []string {
	return []string{"v1.30.14", "v1.31.12", "v1.32.10", "v1.33.13", "v1.34.4", "v1.35.4", KubernetesVersion, "v1.37.2"}
}

// VersionOf returns the version of the table for a minor, such as 1.31, or for itself.
func VersionOf(minor string) (string, error) {
	for _, version := range Versions() {
		if minor == version || strings.HasPrefix(version, "v"+minor+".") {
			return version, nil
		}
	}
	return "", fmt.Errorf("%q is no version of Kubernetes that can be built: use one of %s", minor, strings.Join(minors(), ", "))
}

func minors() []string {
	var all []string
	for _, version := range Versions() {
		all = append(all, strings.Join(strings.Split(strings.TrimPrefix(version, "v"), ".")[:2], "."))
	}
	return all
}

// HasVersion reports whether the API server of a version of the table has been built.
func HasVersion(version string) bool {
	_, err := apiServerOf(version)
	return err == nil
}

// apiServerOf is the program of a version, or of all clusters if that is empty.
func apiServerOf(version string) (string, error) {
	if version == "" || version == KubernetesVersion && os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return Binary(apiServerBinary)
	}
	if !slices.Contains(Versions(), version) {
		return "", fmt.Errorf("%q is no version of Kubernetes that can be built: use one of %s", version, strings.Join(Versions(), ", "))
	}
	return built(version, apiServerBinary, "make controlplane KUBERNETES="+version)
}

// CreateVersion is Create with another version of kube-apiserver, one of Versions. Processes only.
func (f *Fleet) CreateVersion(ctx context.Context, name, version string, flags ...string) (*Cluster, error) {
	if f.options.Provider == Kind {
		return nil, fmt.Errorf("create cluster %s: another version of Kubernetes is another node image of kind", name)
	}
	if _, err := apiServerOf(version); err != nil {
		return nil, fmt.Errorf("create cluster %s: %w", name, err)
	}
	return f.create(ctx, request{name: name, version: version, flags: flags})
}

// Change restarts the cluster with another version of kube-apiserver, one of Versions, on the same data. Processes only.
func (c *Cluster) Change(ctx context.Context, version string) error {
	m, ok := c.machine.(*programs)
	if !ok {
		return c.wrap("change", fmt.Errorf("another version of Kubernetes is another node image of kind"))
	}
	path, err := apiServerOf(version)
	if err != nil {
		return c.wrap("change", err)
	}
	if err := m.kill(); err != nil {
		return c.wrap("change", err)
	}
	m.apiServer.path = path
	return c.Restart(ctx)
}
