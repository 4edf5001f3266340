// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry"
)

// The periods at which a hub with the module writer writes, to each of its remotes and to its hub.
const (
	writeRemoteEvery = 50 * time.Millisecond
	writeHubEvery    = 250 * time.Millisecond
)

// writer returns a module that writes periodically, in every way that a hub can: to the remote and to the hub from an
// app, and to the hub from the hub part. It neither reads nor decides, so that only the hub can keep it from writing.
func writer() registry.Module {
	return registry.NewModule("writer", registry.ModuleOptions{
		Remote: fx.Invoke(func(r registry.Remote) error {
			return r.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
				go writeAlways(ctx, r.HubClient, "from-app", writeHubEvery)
				writeAlways(ctx, r.Client, remoteConfigMap(os.Getenv(writerName)), writeRemoteEvery)
				return nil
			}))
		}),
		HubRuns: registry.WithRemotes,
		Hub: fx.Invoke(func(mgr ctrl.Manager, c client.Client) error {
			return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				writeAlways(ctx, c, "from-hub", writeHubEvery)
				return nil
			}))
		}),
	})
}

// writerName is the variable with a part of the name of the object that a hub writes in its remotes.
const writerName = "CLUSTERFX_TEST_WRITER"

func startWriter(t *testing.T, name string, args ...string) *program {
	t.Helper()
	return startWith(t, []string{asHub + "=" + asWriter, writerName + "=" + name}, args...)
}

func remoteConfigMap(name string) string { return "written-by-" + name }

// written is the content of an object that a hub wrote.
type written struct {
	// By is the ID of the process.
	By int
	// Issued is the time at which the process issued the write.
	Issued time.Time
}

func writeAlways(ctx context.Context, c client.Client, name string, period time.Duration) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			writeOnce(ctx, c, name)
		case <-ctx.Done():
			return
		}
	}
}

func writeOnce(ctx context.Context, c client.Client, name string) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
	patch := fmt.Appendf(nil, `{"data":{"by":"%d","issued":%q}}`, os.Getpid(), time.Now().Format(time.RFC3339Nano))
	err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		_ = c.Create(ctx, object) // The next write retries it.
	}
}

// read decodes an object that a hub wrote, or the patch in an audit log.
func (w *written) read(data []byte) error {
	var raw struct{ Data struct{ By, Issued string } }
	err := json.Unmarshal(data, &raw)
	if err == nil {
		w.By, err = strconv.Atoi(raw.Data.By)
	}
	if err == nil {
		w.Issued, err = time.Parse(time.RFC3339Nano, raw.Data.Issued)
	}
	return err
}

func lastWrite(ctx context.Context, c client.Client, name string) (written, error) {
	var object corev1.ConfigMap
	var w written
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, &object); err != nil {
		return w, err
	}
	data, err := json.Marshal(object)
	if err != nil {
		return w, err
	}
	return w, w.read(data)
}
