// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"testing"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
)

// A test of a module: it handles an object of a remote, and continues after an outage.
func Example() {
	_ = func(t *testing.T) { // func TestEcho(t *testing.T) {
		t.Parallel()
		hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(echo()))
		a := hub.Remote("a")

		a.Create(shout("hello"))
		heard := configMap("echo-a")
		hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "hello") })

		a.Blackhole()
		a.WaitNotReady(hubv1.ReasonTimedOut)
		a.Delete(configMap("shout"))
		a.Create(shout("is anybody there?"))
		a.Repair()
		hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "is anybody there?") })
	}
}

// A remote that has objects before its app starts, and is paused later.
func ExampleHub_NewRemote() {
	_ = func(t *testing.T) {
		hub := hubtest.New(t, hubtest.Modules(echo()))
		edge := hub.NewRemote("edge")
		edge.Create(shout("before anybody listened"))
		edge.Register(func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "eu"} })
		edge.WaitReady()
		edge.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
		edge.WaitNotReady(hubv1.ReasonPaused)
	}
}

// A restarted hub finds its remotes again and handles the changes during its downtime.
func ExampleHub_Restart() {
	_ = func(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
		hub.Stop()
		hub.Remote("edge").Create(shout("while nobody listened"))
		hub.Start()
		heard := configMap("echo-edge")
		hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "while nobody listened") })
	}
}

// The configuration of the module greeter, as an operator writes it below its name in the file of "hub run --config".
func ExampleModuleConfig() {
	_ = func(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(greeter()), hubtest.ModuleConfig("greeter", `
config: {greeting: good morning}
overrides:
- selector: {matchLabels: {region: br}}
  config: {greeting: bom dia}
`))
		greeting := configMap("greeting")
		hub.Remote("a").WaitFor(greeting, func() error { return equal(greeting.Data["text"], "good morning") })
	}
}

// A module that deletes more than 20 objects is held. An operator allows two of the deletes.
func ExampleHub_AllowDeletes() {
	_ = func(t *testing.T) {
		hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(sweeper()))
		edge := hub.Remote("edge")
		doom(edge, 25)
		hold := edge.WaitHeld("sweeper")
		hub.AllowDeletes(hold, 2)
		expectLeft(t, hub, &edge.Server, 3)
	}
}
