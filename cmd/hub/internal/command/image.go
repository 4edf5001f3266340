// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
)

const (
	// stockModule and stockProgram are the Go module and the package of the stock hub.
	stockModule  = "github.com/clusterfx/clusterfx"
	stockProgram = stockModule + "/cmd/hub"
	// stockImage is the repository of the stock hub's image.
	stockImage = "ghcr.io/clusterfx/hub"
)

// IsStock reports whether a program was built from the package of the stock hub. A program without information on how it was
// built is not the stock hub.
func IsStock(info *debug.BuildInfo, ok bool) bool {
	return ok && info.Path == stockProgram && info.Main.Path == stockModule
}

// defaultImage returns the image to install if no flag names one: of a release, and "" for a stock hub that was built from
// a checkout, for which the manifests have one. Another hub has no default: the stock hub lacks its modules.
func (p Program) defaultImage() (string, error) {
	if p.Stock {
		return releasedImage(project.Version()), nil
	}
	return "", fmt.Errorf("%s is not the stock hub, and no image is known that has its modules (%s): build one, and name it with --image; "+
		"see %s", p.name(), strings.Join(names(p.Modules), ", "), project.OwnHub)
}

// releasedImage returns the image of a release, and nothing for a build from a checkout: the manifests have
// the image for that.
func releasedImage(version string) string {
	if !strings.HasPrefix(version, "v") || strings.ContainsAny(version, "-+") {
		return ""
	}
	return stockImage + ":" + version
}

// repositoryOf returns an image reference without its tag and its digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}
