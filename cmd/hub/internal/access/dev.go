// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const policyExtension = "clusterfx.dev/hub-policy"

// WritePolicy writes the policy of the hub's flags into a kubeconfig, so that commands need not repeat the flags.
func WritePolicy(entry *clientcmdapi.Cluster, p kubeconfig.Policy) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the policy of the hub: %w", err)
	}
	if entry.Extensions == nil {
		entry.Extensions = map[string]runtime.Object{}
	}
	entry.Extensions[policyExtension] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	return nil
}

// NATSExtension is the name of the extension of a cluster in a kubeconfig that holds the address of the NATS server of the hub in it.
const NATSExtension = "clusterfx.dev/nats-url"

// WriteNATS writes the address of the hub's NATS server into a kubeconfig.
func WriteNATS(entry *clientcmdapi.Cluster, url string) error {
	raw, err := json.Marshal(url)
	if err != nil {
		return fmt.Errorf("write the address of NATS: %w", err)
	}
	if entry.Extensions == nil {
		entry.Extensions = map[string]runtime.Object{}
	}
	entry.Extensions[NATSExtension] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	return nil
}

// NATS returns the address of the hub's NATS server if the kubeconfig, of dev --nats, has it.
func (f *Flags) NATS() string {
	var url string
	if entry := f.chosen(); entry != nil {
		if extension, ok := entry.Extensions[NATSExtension].(*runtime.Unknown); ok && json.Unmarshal(extension.Raw, &url) != nil {
			return ""
		}
	}
	return url
}

// Policy returns the policy of the hub's flags if the kubeconfig, of dev, has it.
func (f *Flags) Policy() kubeconfig.Policy {
	var p kubeconfig.Policy
	entry := f.chosen()
	if entry == nil {
		return p
	}
	if extension, ok := entry.Extensions[policyExtension].(*runtime.Unknown); !ok || json.Unmarshal(extension.Raw, &p) != nil {
		return kubeconfig.Policy{}
	}
	return p
}

// Dev returns the path of the kubeconfig of a running dev if the hub's cluster was found there, and "" otherwise.
func (f *Flags) Dev() string {
	found, err := f.find()
	if err != nil {
		return ""
	}
	return found.dev
}

// chosen returns nil if there is no entry for the hub's cluster.
func (f *Flags) chosen() *clientcmdapi.Cluster {
	found, err := f.find()
	if err != nil {
		return nil
	}
	raw, err := found.RawConfig()
	if err != nil {
		return nil
	}
	name := f.overrides.CurrentContext
	if name == "" {
		name = raw.CurrentContext
	}
	chosen, ok := raw.Contexts[name]
	if !ok {
		return nil
	}
	return raw.Clusters[chosen.Cluster]
}

type source struct {
	clientcmd.ClientConfig
	dev string
}

// sourceOf returns the kubeconfig that a flag selects: its file, else the files of $KUBECONFIG, else that of a dev
// below the current folder if it has the requested context, else ~/.kube/config. It never merges two. A context that
// both the dev and ~/.kube/config have is an error: the user may mean either.
func sourceOf(flag, path string, overrides *clientcmd.ConfigOverrides) (source, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	usual := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	dev, where, err := devFor(path)
	if err != nil {
		return source{}, fmt.Errorf("%w; say which kubeconfig to use with --%s", err, flag)
	}
	name := overrides.CurrentContext
	if dev == nil || name != "" && dev.Contexts[name] == nil {
		return source{ClientConfig: usual}, nil
	}
	if raw, err := usual.RawConfig(); err == nil && name != "" && raw.Contexts[name] != nil {
		return source{}, fmt.Errorf("%w %q: %s, of a dev that runs here, and %s; say which with --%s",
			ErrTwoContexts, name, where, raw.Contexts[name].LocationOfOrigin, flag)
	}
	return source{clientcmd.NewNonInteractiveClientConfig(*dev, name, overrides, nil), where}, nil
}

// ErrTwoContexts means that two kubeconfigs have the requested context.
var ErrTwoContexts = errors.New("two kubeconfigs have the context")

// devFor returns nothing if a flag or the environment names others.
func devFor(flag string) (*clientcmdapi.Config, string, error) {
	if flag != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return nil, "", nil
	}
	found := FindDev()
	if found == nil {
		return nil, "", nil
	}
	config, err := clientcmd.Load(found.Kubeconfig)
	if err == nil {
		err = onlyData(config)
	}
	if err != nil {
		return nil, "", fmt.Errorf("use %s, of a dev that runs here: %w", found.Path, err)
	}
	return config, found.Path, nil
}

// onlyData reports what dev never writes: commands to run, and files to read.
func onlyData(config *clientcmdapi.Config) error {
	for name, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil || user.ClientCertificate+user.ClientKey+user.TokenFile != "" {
			return fmt.Errorf("its user %q has a command to run or a file to read, which dev does not write", name)
		}
	}
	for name, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf("its cluster %q has a file to read, which dev does not write", name)
		}
	}
	return nil
}

func contextsOf(path string) []string {
	all := map[string]bool{}
	if dev, _, err := devFor(path); err == nil && dev != nil {
		for name := range dev.Contexts {
			all[name] = true
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	if usual, err := rules.Load(); err == nil {
		for name := range usual.Contexts {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Whoever made the current folder is not trusted: it may be a checkout with a folder .hub, and a kubeconfig can name commands to run.
// So other commands read nothing there: a dev leaves a locked record with a copy of its kubeconfig in the user's own cache folder,
// named after the data folder.

const (
	// DevDir is below the current folder.
	DevDir = ".hub"
	// LockFile is locked by the process; the record has one of the same name.
	LockFile = "dev.lock"
	// KubeconfigFile has a context for each cluster; the record has a copy.
	KubeconfigFile = "kubeconfig"
)

// DevHub is a running dev.
type DevHub struct {
	// Path is in the data folder, for messages.
	Path       string
	Kubeconfig []byte
}

// FindDev returns the dev of the default folder below the current one, or nil.
func FindDev() *DevHub {
	dir, err := filepath.Abs(DevDir)
	if err != nil {
		return nil
	}
	record, err := recordOf(dir)
	if err != nil || !isPrivate(filepath.Dir(record)) || !isPrivate(record) || !DevHeld(record) {
		return nil
	}
	data, err := readOwn(filepath.Join(record, KubeconfigFile))
	if err != nil {
		return nil
	}
	return &DevHub{Path: filepath.Join(dir, KubeconfigFile), Kubeconfig: data}
}

func recordOf(dir string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder of the user: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	// A folder may have several paths, but for its name: a data folder is no link.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	name := sha256.Sum256([]byte(dir))
	return filepath.Join(cache, "clusterfx", "dev", hex.EncodeToString(name[:])), nil
}

// RemoveDev removes the record of a data folder. Only its holder may.
func RemoveDev(dir string) error {
	record, err := recordOf(dir)
	if err != nil {
		return nil //nolint:nilerr // A user without a cache folder has no record.
	}
	return os.RemoveAll(record)
}
