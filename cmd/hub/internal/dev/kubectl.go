// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// Kubectl returns the path of the kubectl that was built together with the clusters' programs.
func Kubectl() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "clusterfx", "controlplane", fleet.KubernetesVersion)
	}
	path := filepath.Join(dir, "kubectl")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf(`%w: install kubectl, or run "make controlplane"`, err)
	}
	return filepath.Abs(path)
}
