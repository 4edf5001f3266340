// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
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

// maxCrash bytes of a crash are read: the goroutine that ended the process is first. convictTimeout is for its record.
const maxCrash, convictTimeout = 1 << 20, 10 * time.Second

// Go's text of a crash: a panic's further lines are indented, so none looks like it. A lack of memory proves nothing.
var (
	fatal     = regexp.MustCompile(`(?m)^(panic: |fatal error: (concurrent map|stack overflow|sync: ))`)
	goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*$`)
	label     = regexp.MustCompile(`[{ ]"(cluster|module)": "([A-Za-z0-9._/-]{1,253})"[,}]`)
)

// readCrash ignores everything else in the text, which may hold what a remote wrote, or a secret.
func readCrash(text string) (c cluster.Crash) {
	at := fatal.FindStringIndex(text)
	if at == nil {
		return c
	}
	for _, one := range label.FindAllStringSubmatch(goroutine.FindString(text[at[0]:]), -1) {
		if one[1] == "cluster" {
			c.Cluster, c.Recorded = one[2], true
		} else {
			c.Module = one[2]
		}
	}
	return c
}

// takeCrash returns the file's text, and has this process write there on its way down, with the labels of goroutines.
func takeCrash(path string) (c cluster.Crash, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, statErr := file.Stat()
	text, readErr := io.ReadAll(io.LimitReader(file, maxCrash))
	if err := errors.Join(statErr, readErr); err != nil {
		return c, err
	}
	c = readCrash(string(text))
	c.At = info.ModTime()
	return c, errors.Join(file.Truncate(0), debug.SetCrashOutput(file, debug.CrashOptions{}),
		os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",tracebacklabels=1", ",")))
}

// convictLast records in its Cluster with which app the last process ended. A hub that cannot find out starts anyway.
func convictLast(ctx context.Context, o Options, scheme *runtime.Scheme) {
	if o.CrashFile == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, convictTimeout)
	defer cancel()
	crash, err := takeCrash(o.CrashFile)
	if crash.Recorded {
		o.Log.Info("The last process ended with a panic in a goroutine of an app", "cluster", crash.Cluster, "module", crash.Module, "at", crash.At)
		hub, failed := client.New(o.Config, client.Options{Scheme: scheme})
		if failed == nil {
			failed = cluster.Convict(ctx, hub, crash)
		}
		err = errors.Join(err, failed)
	}
	if err != nil {
		o.Log.Error(err, "Failed to find out with which app the hub ends; make the crash file writable, in a folder that outlives the process",
			"file", o.CrashFile)
	}
}
