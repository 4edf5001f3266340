// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

func requireBinaries(tb testing.TB) {
	tb.Helper()
	var errs []error
	for _, name := range []string{"kube-apiserver", "etcd"} {
		_, err := fleet.Binary(name)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		build, _ := debug.ReadBuildInfo()
		tb.Fatalf("hubtest: %v\n%s", err, howToBuild(build))
	}
}

const modulePath = "github.com/clusterfx/clusterfx"

func howToBuild(build *debug.BuildInfo) string {
	version := "latest"
	if build == nil || build.Main.Path == modulePath {
		return "hubtest runs real API servers. Build them once, which takes some minutes:\n\n\tmake controlplane"
	}
	for _, dependency := range build.Deps {
		if dependency.Path == modulePath && dependency.Replace == nil {
			version = dependency.Version
		}
	}
	return fmt.Sprintf("hubtest runs real API servers. Build them once, which takes some minutes and needs nothing but Go:\n\n"+
		"\tcd \"$(go mod download -json %s/e2e/controlplane@%s | sed -n 's/.*\"Dir\": \"\\(.*\\)\".*/\\1/p')\" && go run .\n\n"+
		"or, in a clone of %s:\n\n\tmake controlplane", modulePath, version, modulePath)
}
