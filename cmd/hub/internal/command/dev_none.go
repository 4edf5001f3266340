// SPDX-License-Identifier: Apache-2.0

//go:build nodev

package command

import "github.com/spf13/cobra"

// newDev returns no command, see dev.go.
func newDev(Program) []*cobra.Command { return nil }
