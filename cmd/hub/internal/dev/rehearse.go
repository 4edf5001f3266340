// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// showRehearsals runs the command rehearse of this program twice: as the hub runs, and with the next configuration.
func (d *demo) showRehearsals(ctx context.Context) error {
	if !d.rehearse {
		return nil
	}
	configs := []string{d.config}
	if next := filepath.Join(filepath.Dir(d.config), "next.yaml"); d.config != "" {
		if _, err := os.Stat(next); err == nil {
			configs = append(configs, next)
		}
	}
	for _, config := range configs {
		if err := d.showRehearsal(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) showRehearsal(ctx context.Context, config string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		"rehearse", "--kubeconfig=" + d.folder.path(kubeconfigFile), "--context=" + hubName, "--trust-observe", "--allow-cidr=127.0.0.0/8",
		"--quiet=3s", "--for=" + d.timeout.String(), "--nats-url=" + d.natsURL,
	}
	if config != "" {
		args = append(args, "--config="+config)
	}
	d.terminal.Text("")
	d.terminal.Step("rehearsing the hub with %s", cmp.Or(config, "its own configuration"))
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr = d.program.Stdout, d.program.Stderr
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		return fmt.Errorf("rehearse: %w", err)
	}
	return nil // The report has said what the exit status says.
}
