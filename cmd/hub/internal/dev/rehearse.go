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

// showRehearsal runs the command rehearse of this program: with the configuration of the hub, and with that of the next version.
func (d *demo) showRehearsal(ctx context.Context) error {
	var configs []string
	if d.rehearse {
		configs = append(configs, d.config)
	}
	if d.next != "" {
		configs = append(configs, d.next)
	}
	for _, config := range configs {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		d.terminal.Text("")
		d.terminal.Step("rehearsing the hub with %s", cmp.Or(config, "its own configuration"))
		cmd := exec.CommandContext(ctx, self, "rehearse", "--kubeconfig="+d.folder.path(kubeconfigFile), "--context="+hubName, "--config="+config,
			"--trust-observe", "--allow-cidr=127.0.0.0/8", "--quiet=3s", "--for="+d.timeout.String(), "--nats-url="+d.natsURL)
		cmd.Stdout, cmd.Stderr = d.program.Stdout, d.program.Stderr
		var ended *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &ended) { // The report has said what the exit status says.
			return fmt.Errorf("rehearse: %w", err)
		}
	}
	return nil
}
