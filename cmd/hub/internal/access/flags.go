// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
)

// Flags say where the hub's cluster is, as kubectl's do. Rarely used flags are not in help texts.
type Flags struct {
	Namespace string

	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// UserAgent is that of the requests of commands.
func UserAgent() string { return "clusterfx-cli (" + project.Version() + ")" }

// Bind adds the flags to a set, but for those that the set has already.
func (f *Flags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "Path of a kubeconfig for the hub's cluster. Default: $KUBECONFIG, else ~/.kube/config")
	all := clientcmd.RecommendedConfigOverrideFlags("")
	all.ContextOverrideFlags.Namespace.LongName = "" // Clusters have none.
	listed := []string{"context", "as", "as-group", "request-timeout"}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&f.overrides, own, all)
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(listed, flag.Name)
		if !flag.Hidden {
			flag.Usage = usages()[flag.Name]
		}
		if set.Lookup(flag.Name) == nil {
			set.AddFlag(flag)
		}
	})
}

// BindNamespace adds the flag that names the credentials namespace.
func (f *Flags) BindNamespace(set *pflag.FlagSet) {
	set.StringVar(&f.Namespace, "credentials-namespace", hubv1.DefaultNamespace, "The namespace of the hub's Secrets and its lease")
}

func usages() map[string]string {
	return map[string]string{
		"context":         "Context of the kubeconfig to use for the hub. Default: its current context",
		"as":              "User to act as in the hub's cluster",
		"as-group":        "Group to act as in the hub's cluster. Repeatable",
		"request-timeout": "How long one request may take, as in 10s. 0 means no limit",
	}
}

// Hub returns a client for the hub's cluster. It sends no request. The error says which flags help.
func (f *Flags) Hub() (*Cluster, error) {
	config, err := f.Config()
	if err != nil {
		return nil, err
	}
	return New("the hub's cluster", config)
}

// Again returns the flags with which another command reaches the same cluster, each after a space.
func (f *Flags) Again() string {
	var text string
	for _, one := range [][2]string{{"kubeconfig", f.kubeconfig}, {"context", f.overrides.CurrentContext}} {
		if one[1] != "" {
			text += " --" + one[0] + " " + one[1]
		}
	}
	return text
}

// Config returns the configuration of clients for the hub's cluster.
func (f *Flags) Config() (*rest.Config, error) {
	config, err := f.load().ClientConfig()
	if err != nil {
		return nil, advised(fmt.Errorf("find the hub's cluster: %w", Brief(err)), "say which it is with --kubeconfig and --context, "+project.Dev)
	}
	config.UserAgent = UserAgent()
	return config, nil
}

func (f *Flags) load() clientcmd.ClientConfig { return Load(f.kubeconfig, &f.overrides) }

// Load reads the file at a path, else the files of $KUBECONFIG, else ~/.kube/config.
func Load(path string, overrides *clientcmd.ConfigOverrides) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// Brief shortens clientcmd's advice, which is about kubectl's variables.
func Brief(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("there is no kubeconfig")
	}
	return err
}

// RemoteFlags say how to reach a remote as its administrator.
type RemoteFlags struct {
	Context, Kubeconfig string
}

// Bind adds the flags --cluster-context and --cluster-kubeconfig to a set.
func (f *RemoteFlags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.Context, "cluster-context", "", "Context of a kubeconfig that leads to the remote, as an administrator of it")
	set.StringVar(&f.Kubeconfig, "cluster-kubeconfig", "", "Path of that kubeconfig. Default: $KUBECONFIG, else ~/.kube/config")
}

// Given reports whether the flags name a remote.
func (f *RemoteFlags) Given() bool { return f.Context != "" || f.Kubeconfig != "" }

// Raw returns the remote's cluster in the kubeconfig, with the data of files that it names, and the chosen context.
func (f *RemoteFlags) Raw() (*clientcmdapi.Cluster, string, error) {
	raw, err := f.load().RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig of the remote: %w", err)
	}
	return entryOf(raw, f.Context)
}

// entryOf returns the cluster of a context, or of the current one, and the name of the context.
func entryOf(raw clientcmdapi.Config, name string) (*clientcmdapi.Cluster, string, error) {
	name = cmp.Or(name, raw.CurrentContext)
	chosen, ok := raw.Contexts[name]
	if !ok {
		return nil, "", fmt.Errorf("--cluster-context=%q: the kubeconfig has no such context; there are %s", name, contextsIn(raw))
	}
	entry, ok := raw.Clusters[chosen.Cluster]
	if !ok {
		return nil, "", fmt.Errorf("context %q names cluster %q, which the kubeconfig does not have", name, chosen.Cluster)
	}
	return entry, name, nil
}

// Remote returns a client for the remote. It sends no request.
func (f *RemoteFlags) Remote() (*Cluster, error) {
	if !f.Given() {
		raw, _ := f.load().RawConfig() // Without a kubeconfig there are none.
		return nil, fmt.Errorf("say how to reach the remote, with --cluster-context: there are %s", contextsIn(raw))
	}
	_, name, err := f.Raw()
	if err != nil {
		return nil, err
	}
	config, err := f.load().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("use context %q: %w", name, err)
	}
	config.UserAgent = UserAgent()
	return NewRemote("the remote (context "+name+")", config)
}

func (f *RemoteFlags) load() clientcmd.ClientConfig {
	return Load(f.Kubeconfig, &clientcmd.ConfigOverrides{CurrentContext: f.Context})
}

func contextsIn(raw clientcmdapi.Config) string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "), "none")
}
