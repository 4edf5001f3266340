// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// showRehearsal runs the command rehearse of this program.
func (d *demo) showRehearsal(ctx context.Context) error {
	if !d.rehearse {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		"rehearse", "--kubeconfig=" + d.folder.path(kubeconfigFile), "--context=" + hubName, "--trust-observe", "--allow-cidr=127.0.0.0/8",
		"--quiet=3s", "--for=" + d.timeout.String(), "--nats-url=" + d.natsURL,
	}
	if d.config != "" {
		args = append(args, "--config="+d.config)
	}
	d.terminal.Text("")
	d.terminal.Step("rehearsing the hub with %s", cmp.Or(d.config, "its own configuration"))
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr = d.program.Stdout, d.program.Stderr
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		return fmt.Errorf("rehearse: %w", err)
	}
	return nil // The report has said what the exit status says.
}
