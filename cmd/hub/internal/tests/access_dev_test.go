// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tests

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// kubeconfigOf returns a kubeconfig with a context, a cluster and a user for each name; servers are named after the place.
func kubeconfigOf(place string, current string, names ...string) *clientcmdapi.Config {
	all := clientcmdapi.NewConfig()
	for _, name := range names {
		all.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + place + "." + name}
		all.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: place}
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	all.CurrentContext = current
	return all
}

// besideDev creates a current folder with a running dev that wrote this kubeconfig, and ~/.kube/config.
func besideDev(t *testing.T, dev, home *clientcmdapi.Config) {
	t.Helper()
	homeDir := t.TempDir()
	path := filepath.Join(homeDir, "config")
	t.Setenv("HOME", homeDir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Chdir(t.TempDir())
	text, err := clientcmd.Write(*dev)
	must(t, err)
	running, err := access.PublishDev(access.DevDir, text)
	must(t, err)
	t.Cleanup(func() { _ = running.Close() })
	// clientcmd has determined the home folder before the test.
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	usual := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = path
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = usual })
	must(t, clientcmd.WriteToFile(*home, path))
}

// serverOf returns the server that the flags for the hub select, and the kubeconfig of the dev if it is used.
func serverOf(t *testing.T, args ...string) (string, string, error) {
	t.Helper()
	var f access.Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Bind(set)
	must(t, set.Parse(args))
	config, err := f.Config()
	if err != nil {
		return "", "", err
	}
	return config.Host + " " + config.BearerToken, f.Dev(), nil
}

// The kubeconfig of a dev is not merged with another kubeconfig, and the name of a context that both have is refused.
func TestFlags_Dev(t *testing.T) {
	home := kubeconfigOf("home", "work", "work", "edge-eu-1", "hub")
	home.Contexts["mixed"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
	besideDev(t, kubeconfigOf("dev", "hub", "hub", "edge-eu-1", "edge-us-1"), home)
	for _, c := range []struct {
		args, want string
		isDev      bool
	}{
		{"", "https://dev.hub dev", true},
		{"--context=edge-us-1", "https://dev.edge-us-1 dev", true},
		{"--context=work", "https://home.work home", false},
		{"--context=mixed", "https://home.hub home", false},
		{"--kubeconfig=" + clientcmd.RecommendedHomeFile, "https://home.work home", false},
	} {
		got, dev, err := serverOf(t, strings.Fields(c.args)...)
		if err != nil || got != c.want || (dev != "") != c.isDev {
			t.Errorf("%q: %q (dev %q), %v, want %q", c.args, got, dev, err, c.want)
		}
	}
	if _, _, err := serverOf(t, "--context=hub"); !errors.Is(err, access.ErrTwoContexts) || !strings.Contains(err.Error(), "--kubeconfig") ||
		!strings.Contains(err.Error(), clientcmd.RecommendedHomeFile) {
		t.Errorf("a context that both have: %v", err)
	}
	t.Setenv("KUBECONFIG", clientcmd.RecommendedHomeFile)
	if got, dev, err := serverOf(t); err != nil || got != "https://home.work home" || dev != "" {
		t.Errorf("with $KUBECONFIG: %q (dev %q), %v", got, dev, err)
	}
}

// The same applies to remotes, and FoundDev reports a remote of a dev.
func TestRemoteFlags_Dev(t *testing.T) {
	besideDev(t, kubeconfigOf("dev", "hub", "hub", "edge-eu-1", "edge-us-1"), kubeconfigOf("home", "work", "work", "edge-eu-1"))
	for name, want := range map[string]string{"edge-us-1": "https://dev.edge-us-1", "work": "https://home.work"} {
		told := ""
		f := access.RemoteFlags{Context: name, FoundDev: func(path string) { told = path }}
		remote, err := f.Remote()
		if err != nil || remote.Config.Host != want {
			t.Fatalf("%s: %v, want %s", name, err, want)
		}
		if isDev := strings.HasPrefix(want, "https://dev"); isDev != strings.HasSuffix(told, ".hub/kubeconfig") {
			t.Errorf("%s: FoundDev gets %q", name, told)
		}
	}
	f := access.RemoteFlags{Context: "edge-eu-1"}
	if _, err := f.Remote(); !errors.Is(err, access.ErrTwoContexts) || !strings.Contains(err.Error(), "--cluster-kubeconfig") {
		t.Errorf("a context that both have: %v", err)
	}
	if got, want := f.Contexts(), []string{"edge-eu-1", "edge-us-1", "hub", "work"}; !slices.Equal(got, want) {
		t.Errorf("the contexts are %v, want %v", got, want)
	}
}

// A kubeconfig of a dev that is found, and not named, is refused if it runs commands or reads files.
func TestFlags_DevOnlyData(t *testing.T) {
	for name, change := range map[string]func(*clientcmdapi.AuthInfo, *clientcmdapi.Cluster){
		"exec": func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "id", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		},
		"auth provider": func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"}
		},
		"token file":  func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.TokenFile = "/etc/hostname" },
		"certificate": func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.ClientCertificate = "/etc/hostname" },
		"key":         func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.ClientKey = "/etc/hostname" },
		"authority":   func(_ *clientcmdapi.AuthInfo, c *clientcmdapi.Cluster) { c.CertificateAuthority = "/etc/hostname" },
	} {
		t.Run(name, func(t *testing.T) {
			dev := kubeconfigOf("dev", "hub", "hub", "edge-eu-1")
			change(dev.AuthInfos["edge-eu-1"], dev.Clusters["edge-eu-1"])
			besideDev(t, dev, kubeconfigOf("home", "work", "work"))
			if _, _, err := serverOf(t); err == nil || !strings.Contains(err.Error(), "which dev does not write; say which kubeconfig") {
				t.Errorf("the kubeconfig is used: %v", err)
			}
		})
	}
}
