// SPDX-License-Identifier: Apache-2.0

// Package examples has the files of the example quota, from which hub new module makes a module.
package examples

import "embed"

// Quota is the folder quota: the program of a hub, the files for its image, and the package of its module.
//
//go:embed quota/*.go quota/quota/*.go quota/Dockerfile quota/Makefile quota/.dockerignore quota/.gitignore
var Quota embed.FS
