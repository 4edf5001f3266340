// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// kubeconfigOf returns a kubeconfig with one context.
func kubeconfigOf(name string) *clientcmdapi.Config {
	all := clientcmdapi.NewConfig()
	all.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name}
	all.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: name}
	all.Contexts[name], all.CurrentContext = &clientcmdapi.Context{Cluster: name, AuthInfo: name}, name
	return all
}

// What a dev writes into its kubeconfig the other commands read: the policy of its hub, and the address of its NATS server.
func TestFlags_OfDev(t *testing.T) {
	t.Parallel()
	dev, known := kubeconfigOf("dev"), access.Dev{Policy: kubeconfig.Policy{AllowProxyURL: true}, NATS: "nats://dev"}
	must(t, known.Write(dev.Clusters["dev"]))
	for _, row := range []struct {
		of  *clientcmdapi.Config
		dev access.Dev
	}{{dev, known}, {kubeconfigOf("other"), access.Dev{}}} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		must(t, clientcmd.WriteToFile(*row.of, path))
		var f access.Flags
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Bind(set)
		must(t, set.Parse([]string{"--kubeconfig=" + path}))
		testkit.Equal(t, f.Dev(), row.dev, "what is known")
	}
}

// Again returns the flags with which another command reaches the same cluster.
func TestFlags_Again(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"":                                   nil,
		" --context edge":                    {"--context", "edge"},
		" --kubeconfig /tmp/k --context one": {"--context=one", "--kubeconfig=/tmp/k"},
	} {
		var f access.Flags
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Bind(set)
		must(t, set.Parse(args))
		if got := f.Again(); got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
}
