// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/middleware"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The goroutine of a remote responds to heartbeats through its inbox. A stuck goroutine is reported with the name of
// its remote until it continues; a goroutine that has ended is not reported.
func TestActor_Heartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hearts := liveness.New(liveness.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		running := make(chan struct{})
		go func() {
			defer close(running)
			hearts.Run(ctx)
		}()
		secrets := &kubeconfig.Redactor{}
		a := New(&Common{
			Apps: &app.Common{}, Log: logr.Discard(), Secrets: secrets, HubCredential: logsink.NewHubCredential(&rest.Config{}, secrets),
			Hearts: hearts, Middleware: &middleware.Set{}, Changed: func(Event) {},
			Forget: func(a *Actor, last func()) bool {
				last()
				return true
			},
		}, "edge-1", state.Desired{Paused: true}.WithDefaults())
		go a.Run()
		<-time.After(5 * time.Minute)
		if missed := hearts.Missed(); missed != nil {
			t.Errorf("paused remote misses heartbeats: %v", missed)
		}
		release := make(chan struct{})
		a.do(func() { <-release })
		<-time.After(time.Minute)
		testkit.ErrorHas(t, hearts.Err(), "cluster edge-1", "error of a stuck goroutine")
		close(release)
		synctest.Wait()
		if err := hearts.Err(); err != nil {
			t.Errorf("error after the goroutine continues: got %v, want none", err)
		}
		a.Stop(time.Time{})
		<-a.done
		<-time.After(5 * time.Minute)
		if err := hearts.Err(); err != nil {
			t.Errorf("error after the goroutine has ended: got %v, want none", err)
		}
		cancel()
		<-running
	})
}
