// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

const (
	// maxCrash bounds what is read of a crash, in bytes: the goroutine that ended the process comes first.
	maxCrash = 1 << 20
	// convictTimeout bounds the record of a crash in its Cluster.
	convictTimeout = 10 * time.Second
)

// What Go writes when a goroutine ends the process. The text of a panic cannot look like it: its further lines are indented. A lack
// of memory is no evidence against the goroutine that needed some.
var (
	fatal     = regexp.MustCompile(`(?m)^(panic: |fatal error: (concurrent map|stack overflow|sync: ))`)
	goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*$`)
	ofCluster = regexp.MustCompile(`[{ ]"cluster": "([a-z0-9.-]{1,253})"[,}]`)
	ofModule  = regexp.MustCompile(`[{ ]"module": "([A-Za-z0-9._/-]{1,253})"[,}]`)
)

// readCrash returns whose goroutine ended a process, given what that wrote on its way down. Everything else in it may hold what a
// remote wrote, or a secret, and is ignored.
func readCrash(text string) (c cluster.Crash, found bool) {
	at := fatal.FindStringIndex(text)
	if at == nil {
		return c, false
	}
	labels := goroutine.FindString(text[at[0]:])
	if one := ofCluster.FindStringSubmatch(labels); one != nil {
		c.Cluster, c.Recorded = one[1], true
	}
	if one := ofModule.FindStringSubmatch(labels); one != nil {
		c.Module = one[1]
	}
	return c, c.Recorded
}

// takeCrash returns what is in the file of crashes, and has this process write there on its way down. The labels of goroutines are
// those of their apps.
func takeCrash(path string) (c cluster.Crash, found bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return c, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return c, false, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxCrash))
	if err != nil {
		return c, false, err
	}
	c, found = readCrash(string(text))
	c.At = info.ModTime()
	if err := file.Truncate(0); err != nil {
		return c, found, err
	}
	if err := os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",tracebacklabels=1", ",")); err != nil {
		return c, found, err
	}
	return c, found, debug.SetCrashOutput(file, debug.CrashOptions{})
}

// convictLast records in its Cluster with which app the last process ended, if that has written it. A hub that cannot find out starts
// all the same.
func convictLast(ctx context.Context, o Options, scheme *runtime.Scheme) {
	if o.CrashFile == "" {
		return
	}
	crash, found, err := takeCrash(o.CrashFile)
	if found {
		o.Log.Info("The last process ended with a panic in a goroutine of an app", "cluster", crash.Cluster, "module", crash.Module, "at", crash.At)
		err = errors.Join(err, convict(ctx, o, scheme, crash))
	}
	if err != nil {
		o.Log.Error(err, "Failed to find out with which app the hub ends; make the crash file writable, in a folder that outlives the process",
			"file", o.CrashFile)
	}
}

func convict(ctx context.Context, o Options, scheme *runtime.Scheme, crash cluster.Crash) error {
	ctx, cancel := context.WithTimeout(ctx, convictTimeout)
	defer cancel()
	hub, err := client.New(o.Config, client.Options{Scheme: scheme})
	if err == nil {
		err = cluster.Convict(ctx, hub, crash)
	}
	if err != nil {
		return fmt.Errorf("record the crash in the Cluster %s: %w", crash.Cluster, err)
	}
	return nil
}
