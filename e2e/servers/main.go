// SPDX-License-Identifier: Apache-2.0

// Command servers runs a command whose tests share a pool of API servers, see the package pool:
//
//	servers go test ./...
//	servers -cost go test ./...   # prints the processor time of each package at the end
//
// A server starts when a test asks for it. All end with the command. The exit code is that of the command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

func main() {
	if filepath.Base(os.Args[0]) == execName {
		os.Exit(measure(os.Args[1:]))
	}
	ctrl.SetLogger(logr.Discard())
	cost := flag.Bool("cost", false, "print the processor time of each package")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, *cost, flag.Args())
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "servers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, cost bool, args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("name the command to run")
	}
	dir, release, err := claimDir()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, release()) }()
	socket := filepath.Join(dir, "socket")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	env := []string{pool.Socket + "=" + socket}
	costs := &costs{}
	if cost {
		more, err := costs.begin(dir)
		if err != nil {
			return 0, errors.Join(err, listener.Close())
		}
		env = append(env, more...)
	}
	lender := newLender(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var served sync.WaitGroup
	var serveErr error
	served.Go(func() { serveErr = lender.pool.Serve(serving, listener, costs.used) })
	code, err = command(ctx, args, env)
	stop()
	served.Wait()
	err = errors.Join(err, serveErr, lender.close())
	if cost {
		err = errors.Join(err, costs.print(os.Stdout))
	}
	return code, err
}

// claimDir returns an empty folder, the same for all runs here, so that Go finds the results of tests that have read
// its name; a new one if another run uses it.
func claimDir() (dir string, release func() error, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(here))
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("clusterfx-pool-%x", name.Sum64()))
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		dir, err = os.MkdirTemp("", "clusterfx-pool-")
		return dir, func() error { return os.RemoveAll(dir) }, errors.Join(err, lock.Close())
	}
	err = errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) // A run that was killed has left it.
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, err
}

// command is interrupted when ctx ends, and gets time to end.
func command(ctx context.Context, args, env []string) (code int, err error) {
	const patience = 30 * time.Second
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), env...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	err = c.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(failed.ExitCode(), 1), nil // -1: ended by a signal.
	}
	return 0, err
}

type lender struct {
	pool  *pool.Pool
	close func() error
}

func newLender(ctx context.Context) *lender {
	ctx = context.WithoutCancel(ctx)
	var started *fleet.Fleet
	start := sync.OnceValues(func() (*fleet.Fleet, error) {
		f, err := fleet.New(ctx, fleet.Options{})
		started = f
		return f, err
	})
	own := pool.New(func(ctx context.Context, name string) (*fleet.Cluster, error) {
		f, err := start()
		if err != nil {
			return nil, fmt.Errorf("start the fleet: %w", err)
		}
		return f.Create(ctx, name)
	})
	return &lender{pool: own, close: func() error {
		if started == nil {
			return nil
		}
		return started.Close(ctx)
	}}
}
