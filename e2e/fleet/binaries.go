// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"path/filepath"
)

// KubernetesVersion is built by `make controlplane` and run by Processes, unless KUBEBUILDER_ASSETS names a folder.
const KubernetesVersion = "v1.36.3"

// Names of the programs.
const (
	etcdBinary              = "etcd"
	apiServerBinary         = "kube-apiserver"
	controllerManagerBinary = "kube-controller-manager"
)

// Binary returns the path of etcd, kube-apiserver, kube-controller-manager or kubectl. If it does not exist, the error
// explains how to get it.
func Binary(name string) (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		path, err := filepath.Abs(filepath.Join(assets, name))
		if err == nil && !executable(path) {
			err = fmt.Errorf(
				`KUBEBUILDER_ASSETS=%s holds no %s: unset the variable and run "make controlplane"`, assets, name)
		}
		return path, err
	}
	return built(KubernetesVersion, name, "make controlplane")
}

// built returns the path of a program of a version, or an error with the command that builds it.
func built(version, name, command string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return name, fmt.Errorf("find the folder with %s of Kubernetes %s: %w", name, version, err)
	}
	path := filepath.Join(cache, "clusterfx", "controlplane", version, name)
	if !executable(path) {
		return path, fmt.Errorf(`%s is missing: run "%s"`, path, command)
	}
	return path, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
