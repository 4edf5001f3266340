// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
)

type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read it only after done
}

func (r *running) stop() {
	r.cancel()
	<-r.done
}

// startHub's hub ends with cleanUp and not with ctx, so that it is stopped in order.
func (d *demo) startHub(ctx context.Context) error {
	account, err := d.hubAccount(ctx)
	if err != nil {
		return err
	}
	if d.replicas > 1 {
		if err := d.folder.writeNew(accountFile, account.Kubeconfig()); err != nil {
			return fmt.Errorf("write the kubeconfig of the replicas: %w", err)
		}
		return d.startReplicas(ctx)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = d.prepared.Run(ctx, account.Config(), d.natsURL)
	}()
	d.running = r
	return nil
}

func (d *demo) hubEnded() error {
	where := ""
	if !d.verbose {
		where = "; see " + d.folder.path(logFile)
	}
	if d.running.err == nil {
		return errors.New("the hub ended" + where)
	}
	return fmt.Errorf("the hub ended: %w%s", d.running.err, where)
}
