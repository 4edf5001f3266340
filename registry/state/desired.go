// SPDX-License-Identifier: Apache-2.0

package state

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

// Desired is the desired state of one remote. It holds credentials and no reference to a Secret: the caller of
// Ensure has read the Secret, so that the registry can stop a remote without credentials.
type Desired struct {
	// Endpoint is the address of the API server and how its certificate is verified. A new endpoint replaces the
	// connection and the app.
	Endpoint kubeconfig.Endpoint
	// Credential authenticates the hub to the remote. The registry tries a new credential on a connection of its
	// own, and the running app uses it as soon as the remote has accepted it.
	Credential kubeconfig.Credential
	// CredentialName is the caller's name for the credential. Status.CredentialName is the name of the credential
	// in use.
	CredentialName string
	// AcceptCredential makes the registry use the credential even if the remote refuses it or it cannot be tried.
	// The app is stopped for that.
	AcceptCredential bool

	// Labels and Annotations are the Cluster object's. Modules see them. A change restarts the app only if it
	// selects another module or another configuration of a module.
	Labels, Annotations map[string]string

	// Owner refers to the object on the hub that represents the remote. Modules make it the owner of the objects
	// that they create on the hub: see Status.Owner. A new UID replaces the app, since the app has the old one.
	Owner metav1.OwnerReference

	// Revision is the caller's name for this configuration. Status.Revision repeats it, so that the caller can tell
	// a snapshot from one that was taken before the call of Ensure. The registry does not use it.
	Revision string

	// Identity guards against a Secret that leads to another cluster than before.
	Identity Identity
	// Since is the creation time of the Cluster object. If two names lead to one cluster, the name with the earlier
	// time keeps the cluster and the later one is a duplicate; at equal times the name that sorts first keeps it.
	Since time.Time
	// AllowHub permits that this remote is the hub's own cluster.
	AllowHub bool
	// CrashRecord is what ends of the hub's process say about this app.
	CrashRecord CrashRecord
	// Warm keeps the app of a remote ready for the moment at which this hub takes the remote over from another hub: the app is
	// built, its OnStart hooks run, its caches are filled, and its controllers and other runnables wait. A hook that writes
	// fails, and the app with it, while a gate refuses writes to the remote. The client is not lent out. When Warm is
	// cleared, the same app works at once, unless another app is desired then. When Warm is set, a working app and its leases
	// end, and the next app waits. A warm remote that is removed runs no cleanup steps and abandons none: the hub that has
	// the remote at work cleans up.
	Warm bool
	// IdentifyOnly keeps an app from being started, so that the caller can record the id of the remote before anything runs
	// there. An app that works continues to work, and a warm app continues to wait.
	IdentifyOnly bool
	// Paused stops the app and the probe and keeps the remote known.
	Paused bool
	// Probe configures the health probe. Zero fields take the defaults.
	Probe Probe
	// Client limits the requests of the app to the remote. Zero fields take the defaults.
	Client ClientLimits
	// Modules are the names of the modules to run. Nil means every module that is on by default and
	// selects the remote; an empty, non-nil list means none. See Selector.
	Modules []string
	// Namespaces limit the app's cache, for credentials that may see only these. Empty means all.
	Namespaces []string
}

// Identity is which cluster a remote is expected to be.
type Identity struct {
	// Known is the id recorded at an earlier contact, or empty. The registry starts no app for a remote that reports
	// another id.
	Known string
	// Accepted is an id that the operator allows to replace Known.
	Accepted string
	// Rival is an older remote with the id Known, which another hub runs. While it is set, the remote is a duplicate, as it is
	// of an older remote of the same registry.
	Rival ClusterName
}

// CrashRecord is what ends of the hub's process say about an app: see the Journal of package registry.
type CrashRecord struct {
	// Crashes counts the ends during the start of the app. An app with one is started after the apps without, as retries are.
	Crashes int
	// Alone has the app started last of all, and no other at the same time.
	Alone bool
	// Until is the time before which the app is not started. Zero means that it may start now.
	Until time.Time
}

// Probe configures the health probe. After a first failure the probe runs every second until the remote responds
// again.
type Probe struct {
	// Period is the time between probes of a healthy remote, jittered by 10 %. Default 5 s.
	Period time.Duration
	// Timeout bounds one probe. Default 3 s.
	Timeout time.Duration
	// FailureThreshold is the number of consecutive failed probes that make a remote Unreachable.
	// Default 3. A response that rejects the credentials counts at once.
	FailureThreshold int
	// SuccessThreshold is the number of consecutive successful probes that end an outage. Default 1.
	SuccessThreshold int
}

// ClientLimits limits the requests of one app to its remote, over all of its controllers.
type ClientLimits struct {
	// QPS and Burst configure the app's token bucket, which all of its requests share. Defaults 500 and 1000.
	QPS   float64
	Burst int
	// Timeout bounds one request other than a list or a watch. Default 10 s.
	Timeout time.Duration
}

// Defaults of Probe and ClientLimits. With them a remote that refuses connections is Unreachable within 7 s of its last
// successful probe, and a remote that does not respond within 16 s.
const (
	defaultProbePeriod      = 5 * time.Second
	defaultProbeTimeout     = 3 * time.Second
	defaultFailureThreshold = 3
	defaultSuccessThreshold = 1
	defaultQPS              = 500
	defaultBurst            = 1000
	defaultRequestTimeout   = 10 * time.Second
)

// WithDefaults returns d with every zero field filled in.
func (d Desired) WithDefaults() Desired {
	d.Probe.Period = orDefault(d.Probe.Period, defaultProbePeriod)
	d.Probe.Timeout = orDefault(d.Probe.Timeout, defaultProbeTimeout)
	d.Probe.FailureThreshold = orDefault(d.Probe.FailureThreshold, defaultFailureThreshold)
	d.Probe.SuccessThreshold = orDefault(d.Probe.SuccessThreshold, defaultSuccessThreshold)
	d.Client.QPS = orDefault(d.Client.QPS, defaultQPS)
	d.Client.Burst = orDefault(d.Client.Burst, defaultBurst)
	d.Client.Timeout = orDefault(d.Client.Timeout, defaultRequestTimeout)
	return d
}

// Clone returns a copy that shares no map or slice with d.
func (d Desired) Clone() Desired {
	d.Labels, d.Annotations = maps.Clone(d.Labels), maps.Clone(d.Annotations)
	d.Modules, d.Namespaces = slices.Clone(d.Modules), slices.Clone(d.Namespaces)
	d.Endpoint.CAData = bytes.Clone(d.Endpoint.CAData)
	return d
}

func orDefault[T int | float64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
