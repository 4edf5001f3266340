// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A call that fails, panics or hangs affects only the result of its own remote.
func TestEach(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	for i, name := range []registry.ClusterName{"deaf", "fails", "goes", "panics", "slow", "unselected", "works"} {
		_, config := remote(t, []string{"one", "two"}[i%2])
		config.Labels = map[string]string{"name": string(name)}
		spawn(t, r, name, config)
	}
	_, config := remote(t, "one")
	config.Endpoint.Server = "https://127.0.0.1:1" // no API server
	must(t, r.Ensure("dead", config))
	selector, err := labels.Parse("name!=unselected")
	must(t, err)
	release := make(chan struct{})
	defer close(release)
	boom := errors.New("boom")

	began := time.Now()
	results := registry.Each(t.Context(), r, registry.EachOptions{Select: state.MatchLabels(selector), Timeout: 2 * time.Second},
		func(ctx context.Context, name registry.ClusterName, remote client.Client) (int, error) {
			switch name {
			case "deaf":
				<-release
			case "fails":
				return 1, boom
			case "goes":
				runtime.Goexit()
			case "panics":
				panic("at the disco")
			case "slow":
				<-ctx.Done()
				return 2, ctx.Err()
			}
			var all corev1.NamespaceList
			err := remote.List(ctx, &all)
			return len(all.Items), err
		})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("Each took %s, want 20s at most", took)
	}
	var got []string
	for _, one := range results {
		var what string
		switch {
		case one.Err == nil && one.Value > 0 && one.Duration > 0:
			what = "ok"
		case one.NotReady() && one.Duration == 0:
			what = "not ready"
		case errors.Is(one.Err, context.DeadlineExceeded):
			what = fmt.Sprint("late ", one.Value)
		case errors.Is(one.Err, boom):
			what = fmt.Sprint("boom ", one.Value)
		case one.Err != nil:
			what = one.Err.Error()
		}
		got = append(got, string(one.Cluster)+": "+what)
	}
	want := []string{
		"dead: not ready", "deaf: late 0", "fails: boom 1", "goes: runtime.Goexit was called, as FailNow of a test does",
		"panics: panic: at the disco", "slow: late 2", "works: ok",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEach_BoundsWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	const remotes, atOnce = 6, 2
	_, config := remote(t, "one")
	for i := range remotes {
		spawn(t, r, registry.ClusterName(fmt.Sprint("remote-", i)), config)
	}
	running, returned := make(chan struct{}, remotes), make(chan []registry.EachResult[bool])
	next := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		returned <- registry.Each(ctx, r, registry.EachOptions{Concurrency: atOnce},
			func(context.Context, registry.ClusterName, client.Client) (bool, error) {
				running <- struct{}{}
				<-next
				return true, nil
			})
	}()
	for range atOnce {
		<-running
	}
	if n := len(running); n > 0 {
		t.Errorf("got %d concurrent calls, want %d", atOnce+n, atOnce)
	}
	next <- struct{}{}
	<-running
	cancel() // The remaining remotes are not called.
	close(next)
	called := 0
	for _, one := range <-returned {
		if one.Value {
			called++
		} else if !errors.Is(one.Err, context.Canceled) {
			t.Errorf("%s: %v, want the error of the context", one.Cluster, one.Err)
		}
	}
	testkit.Equal(t, called, atOnce+1, "remotes were called")
}
