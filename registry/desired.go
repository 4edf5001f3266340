// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// ClusterName names a remote. It is the name of its Cluster object: a DNS label, unique within
// the hub.
type ClusterName string

// Config is the desired state of one remote. It carries no Secret reference: whoever calls
// Ensure has resolved the Secret already, so that stopping a remote never needs credentials.
type Config struct {
	// Endpoint says where the API server is and how it is verified. A change of it replaces the
	// connection and the app.
	Endpoint kubeconfig.Endpoint
	// Credential says who the hub is there. A new one is tried on a connection of its own, and swapped under the
	// running app when the remote has accepted it.
	Credential kubeconfig.Credential
	// CredentialName names the credential to its author. Info repeats the name of the one in use.
	CredentialName string
	// AcceptCredential demands that the credential is used though the remote refuses it, or though it could not
	// be tried. The app ends for that.
	AcceptCredential bool

	// Labels and Annotations are those of the Cluster object. Modules see them; a change restarts
	// nothing, unless a module or the configuration of one is selected by it.
	Labels, Annotations map[string]string

	// Owner refers to the object on the hub that stands for the remote. Modules let what they make on the hub
	// belong to it: see Info.Owner. A change of its UID replaces the app, which has the UID of before.
	Owner metav1.OwnerReference

	// Revision names this configuration to its author. Info repeats it, so that a snapshot can be
	// told from one of before the call of Ensure. It changes nothing.
	Revision string

	// Identity guards against a Secret that leads to another cluster than before.
	Identity Identity
	// Since decides between two names for one cluster: the one with the earlier time stays, the
	// other one is a duplicate. Where both are the same, the name decides. It is the creation time
	// of the Cluster object. A change of it changes nothing else.
	Since time.Time
	// AllowHub permits that this remote is the hub's own cluster.
	AllowHub bool
	// Suspicion says that the hub has crashed while this app was being started.
	Suspicion Suspicion
	// Paused stops the app and the probe and keeps the remote known.
	Paused bool
	// Probe sets the pace of the health probe. Zero fields take the defaults.
	Probe Probe
	// Client bounds what the app may ask of the remote. Zero fields take the defaults.
	Client Client
	// Modules are the names of the modules to run. Nil means every module that is on by default and
	// selects the remote; an empty, non-nil list means none. See Selector.
	Modules []string
	// Namespaces limit the app's cache, for credentials that may see only these. Empty means all.
	Namespaces []string
}

// Identity is what the owner of the remote knows about which cluster it is.
type Identity struct {
	// Known is the id recorded at an earlier contact, or empty. A remote that reports another id
	// is not started.
	Known string
	// Accepted is an id that the operator allows to replace Known.
	Accepted string
}

// Suspicion is what is on record against an app: see Journal.
type Suspicion struct {
	// Crashes counts how often in a row the hub crashed while the app was being started. A suspect
	// is started after all others, and no other app is started with it.
	Crashes int
	// Until keeps the app from being started before that time. Zero means that it may start.
	Until time.Time
}

// Probe sets the pace of the health probe. After a first failure the probe runs every second
// until the remote answers again.
type Probe struct {
	// Period is the time between probes of a healthy remote, jittered by 10 %. Default 5 s.
	Period time.Duration
	// Timeout bounds one probe. Default 3 s.
	Timeout time.Duration
	// FailureThreshold is the number of failed probes in a row that make a remote Unreachable.
	// Default 3. An answer that rejects the credentials counts at once.
	FailureThreshold int
	// SuccessThreshold is the number of good probes in a row that bring it back. Default 1.
	SuccessThreshold int
}

// Client bounds what one app may ask of its remote, all of its controllers together.
type Client struct {
	// QPS and Burst are those of one token bucket for the whole app. Defaults 50 and 100.
	QPS   float64
	Burst int
	// Timeout bounds one request other than a list or a watch. Default 10 s.
	Timeout time.Duration
}

// Defaults of Probe and Client. A refused API server is Unreachable 7 s after its last good probe at
// the latest, a silent one after 16 s.
const (
	defaultProbePeriod      = 5 * time.Second
	defaultProbeTimeout     = 3 * time.Second
	defaultFailureThreshold = 3
	defaultSuccessThreshold = 1
	defaultQPS              = 50
	defaultBurst            = 100
	defaultRequestTimeout   = 10 * time.Second
)

// withDefaults returns c with every zero field filled in.
func (c Config) withDefaults() Config {
	c.Probe.Period = orDefault(c.Probe.Period, defaultProbePeriod)
	c.Probe.Timeout = orDefault(c.Probe.Timeout, defaultProbeTimeout)
	c.Probe.FailureThreshold = orDefault(c.Probe.FailureThreshold, defaultFailureThreshold)
	c.Probe.SuccessThreshold = orDefault(c.Probe.SuccessThreshold, defaultSuccessThreshold)
	c.Client.QPS = orDefault(c.Client.QPS, defaultQPS)
	c.Client.Burst = orDefault(c.Client.Burst, defaultBurst)
	c.Client.Timeout = orDefault(c.Client.Timeout, defaultRequestTimeout)
	return c
}

// clone returns a copy that shares no map or slice with its author.
func (c Config) clone() Config {
	c.Labels, c.Annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
	c.Modules, c.Namespaces = slices.Clone(c.Modules), slices.Clone(c.Namespaces)
	c.Endpoint.CAData = bytes.Clone(c.Endpoint.CAData)
	return c
}

func orDefault[T int | float64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
