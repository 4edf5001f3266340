// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/tunnel"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// demo is one dev. It keeps the results of each step for later ones.
type demo struct {
	options
	program  Program
	terminal *output.Terminal

	folder   *folder
	logFile  *os.File // nil when the hub logs to the terminal
	log      io.Writer
	prepared Hub
	objects  []*unstructured.Unstructured // of --apply
	rules    []rules.Rule                 // among them
	scheme   *runtime.Scheme
	fleet    *fleet.Fleet
	hub      *fleet.Cluster
	client   client.Client // of the hub
	remotes  []remote
	running  *running   // the hub, once it was started
	started  []*replica // of the hub, none if it runs in this process

	agents *tunnel.Local // of --tunnel

	natsServer *server.Server // nil without --nats
	natsURL    string
}

type remote struct {
	*fleet.Cluster
	region  string
	version string // of Kubernetes, as the API server says
}

func (r remote) labels() map[string]string { return map[string]string{"region": r.region} }

const stopTimeout = time.Minute

func (d *demo) run(ctx context.Context) (err error) {
	if d.folder, err = claim(d.dataDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cleanUp(ctx, err)) }()
	steps := []func(context.Context) error{
		d.prepare, d.startClusters, d.startNATS, d.writeKubeconfig, d.simulate, d.applyObjects, d.register, d.startHub,
		d.waitReady, d.printTable, d.showRehearsal, d.printNext,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return orInterrupted(ctx, err)
		}
	}
	if d.exitAfterReady {
		return nil
	}
	return d.stay(ctx)
}

var errInterrupted = errors.New("interrupted")

// orInterrupted: a step that was interrupted may say anything.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

func (d *demo) prepare(context.Context) error {
	var err error
	if d.log, err = d.openLog(); err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	if d.prepared, err = d.program.Hub(d.log, d.config); err != nil {
		return err
	}
	if d.objects, err = readObjects(d.apply); err != nil {
		return err
	}
	if d.rules, err = roles.RulesIn(d.objects); err != nil {
		return fmt.Errorf("read the rules of --apply: %w", err)
	}
	if len(d.prepared.Unused) > 0 {
		d.terminal.Step("dev does not use these flags of %s: %s", d.config, strings.Join(d.prepared.Unused, ", "))
	}
	d.scheme = runtime.NewScheme()
	return errors.Join(clientgoscheme.AddToScheme(d.scheme), apiextensionsv1.AddToScheme(d.scheme), hubv1.AddToScheme(d.scheme))
}

func (d *demo) openLog() (w io.Writer, err error) {
	if d.verbose {
		return d.program.Stderr, nil
	}
	d.logFile, err = openNoLink(d.folder.path(logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC)
	return d.logFile, err
}

func (d *demo) stay(ctx context.Context) error {
	if d.background {
		d.terminal.Say(output.Rest, "running in the background; %s dev down%s stops everything", self(d.program.Name), d.dataDirFlag())
		if err := leaveStreams(d.folder.path(logFile)); err != nil {
			return fmt.Errorf("leave the terminal: %w", err)
		}
	} else {
		d.terminal.Say(output.Rest, "running; Ctrl-C stops everything")
	}
	if err := d.folder.sign(true); err != nil {
		return fmt.Errorf("sign the data folder: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.running.done:
		return d.hubEnded()
	}
}

func (d *demo) dataDirFlag() string {
	if d.dataDir == defaultDataDir {
		return ""
	}
	return " --data-dir " + d.dataDir
}

// cleanUp stops all in reverse order and removes the files. A hub's log stays if it may explain why.
func (d *demo) cleanUp(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var errs []error
	if d.running != nil {
		d.terminal.Step("stopping the hub")
		d.running.stop()
	}
	d.agents.Close()
	d.stopNATS()
	if d.fleet != nil {
		d.terminal.Step("stopping the clusters")
		errs = append(errs, d.fleet.Close(ctx))
	}
	if d.logFile != nil {
		errs = append(errs, d.logFile.Close())
	}
	keepLog := d.running != nil && why != nil && !errors.Is(why, errInterrupted)
	errs = append(errs, d.folder.release(keepLog))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	if d.prepared.Run != nil { // else nothing was started
		d.terminal.Done("everything was stopped")
	}
	return nil
}
