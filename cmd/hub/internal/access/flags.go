// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
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
	UserAgent string
	// FoundDev is called with the path of a running dev's kubeconfig, if no flag names that. Default: no call.
	FoundDev func(path string)

	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// Bind adds the flags to a set, but for those that the set has already.
func (f *Flags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "Path of a kubeconfig for the hub's cluster. Default: $KUBECONFIG, else the kubeconfig of a dev that runs in .hub and has the context, else ~/.kube/config")
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
	if path := f.Dev(); path != "" && f.FoundDev != nil {
		f.FoundDev(path)
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
	found, err := f.find()
	if err != nil {
		return nil, fmt.Errorf("find the hub's cluster: %w", err)
	}
	config, err := found.ClientConfig.ClientConfig()
	if err != nil {
		return nil, advised(fmt.Errorf("find the hub's cluster: %w", Brief(err)), "say which it is with --kubeconfig and --context, "+project.Dev)
	}
	config.UserAgent = f.UserAgent
	return config, nil
}

func (f *Flags) find() (source, error) { return sourceOf("kubeconfig", f.kubeconfig, &f.overrides) }

// Brief shortens clientcmd's advice, which is about kubectl's variables.
func Brief(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("there is no kubeconfig")
	}
	return err
}

// Contexts returns the contexts to choose from, sorted; none if the kubeconfig cannot be read.
func (f *Flags) Contexts() []string { return contextsOf(f.kubeconfig) }

// RemoteFlags say how to reach a remote as its administrator.
type RemoteFlags struct {
	Context, Kubeconfig string
	UserAgent           string
	// FoundDev is called with the path of a running dev's kubeconfig, if no flag names that. Default: no call.
	FoundDev func(path string)
}

// Bind adds the flags --cluster-context and --cluster-kubeconfig to a set.
func (f *RemoteFlags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.Context, "cluster-context", "", "Context of a kubeconfig that leads to the remote, as an administrator of it")
	set.StringVar(&f.Kubeconfig, "cluster-kubeconfig", "", "Path of that kubeconfig. Default: $KUBECONFIG, else the kubeconfig of a dev that runs in .hub and has the context, else ~/.kube/config")
}

// Given reports whether the flags name a remote.
func (f *RemoteFlags) Given() bool { return f.Context != "" || f.Kubeconfig != "" }

// Contexts returns the names of the contexts to choose from, sorted.
func (f *RemoteFlags) Contexts() []string { return contextsOf(f.Kubeconfig) }

// Raw returns the remote's cluster in the kubeconfig, with the data of files that it names, and the chosen context.
func (f *RemoteFlags) Raw() (*clientcmdapi.Cluster, string, error) {
	found, err := f.find()
	if err != nil {
		return nil, "", fmt.Errorf("find the remote: %w", err)
	}
	raw, err := found.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig of the remote: %w", err)
	}
	name := f.Context
	if name == "" {
		name = raw.CurrentContext
	}
	chosen, ok := raw.Contexts[name]
	if !ok {
		return nil, "", f.unknown(name)
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
		return nil, fmt.Errorf("say how to reach the remote, with --cluster-context: there are %s", list(f.Contexts()))
	}
	_, name, err := f.Raw()
	if err != nil {
		return nil, err
	}
	found, err := f.find()
	if err != nil {
		return nil, fmt.Errorf("find the remote: %w", err)
	}
	config, err := found.ClientConfig.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("use context %q: %w", name, err)
	}
	config.UserAgent = f.UserAgent
	if found.dev != "" && f.FoundDev != nil {
		f.FoundDev(found.dev)
	}
	return NewRemote("the remote (context "+name+")", config)
}

func (f *RemoteFlags) find() (source, error) {
	return sourceOf("cluster-kubeconfig", f.Kubeconfig, &clientcmd.ConfigOverrides{CurrentContext: f.Context})
}

func (f *RemoteFlags) unknown(name string) error {
	return fmt.Errorf("--cluster-context=%q: the kubeconfig has no such context; there are %s", name, list(f.Contexts()))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
