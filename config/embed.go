// SPDX-License-Identifier: Apache-2.0

// Package config carries the YAML of this folder into Go programs that install it: the development
// command of the hub, the test kit and the tests. It holds no logic and imports nothing.
package config

import "embed"

// CRDs holds the CustomResourceDefinitions that the hub needs, as crd/<group>_<plural>.yaml.
//
//go:embed crd/*.yaml
var CRDs embed.FS
