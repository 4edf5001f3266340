// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// ClusterName is the name of a remote's Cluster: a DNS label, unique within the hub.
type ClusterName string

// Desired is the desired state of one remote. It has credentials in place of a reference to a Secret, so that the
// registry can stop a remote without reading one.
type Desired struct {
	// Endpoint is the API server's address and verification. A new one replaces the connection and the app.
	Endpoint kubeconfig.Endpoint
	// Credential authenticates the hub. A new one is tried on a connection of its own, and used by the running app once
	// the remote has accepted it.
	Credential kubeconfig.Credential
	// CredentialName is the caller's; Status.CredentialName has that of the credential in use.
	CredentialName string
	// AcceptCredential makes the registry use the credential even if the remote refuses it or it cannot be tried. The
	// app is stopped for that.
	AcceptCredential bool

	// Labels and Annotations are the Cluster's. A change restarts the app only if other modules or configurations
	// follow.
	Labels, Annotations map[string]string

	// Owner is the object on the hub for the remote; modules make it the owner of what they create on the hub (see
	// Status.Owner). A new UID replaces the app, which has the old one.
	Owner metav1.OwnerReference

	// Revision is the caller's name for this configuration, repeated by Status.Revision to tell a snapshot's age.
	Revision string

	// Identity guards against a Secret that leads to another cluster than before.
	Identity Identity
	// Since is the Cluster's creation time. Of two names for one cluster the earlier keeps it and the other is a
	// duplicate; at equal times the one that sorts first keeps it.
	Since time.Time
	// AllowHub permits the hub's own cluster.
	AllowHub bool
	// CrashRecord is what ends of the hub's process say about this app.
	CrashRecord CrashRecord
	// Warm keeps the app ready while another hub still has the remote: it is built, OnStart hooks run, caches are
	// filled, controllers and other runnables wait, and no client is lent out. While a gate refuses writes, a hook that
	// writes fails, and the app with it. When Warm is cleared, the same app works at once, unless another is desired by
	// then; when it is set, a working app and its leases end, and the next one waits. The removal of a warm remote runs
	// no cleanup steps and abandons none: the other hub cleans up.
	Warm bool
	// IdentifyOnly keeps an app from being started, so that the caller can record the id first. A working app
	// continues, and a warm one continues to wait.
	IdentifyOnly bool
	// Paused stops the app and the probe and keeps the remote known.
	Paused bool
	// Probe has defaults for zero fields.
	Probe Probe
	// Client limits requests to the remote, with defaults for zero fields.
	Client ClientLimits
	// Modules are those to run. Nil means all that are on by default and select the remote; empty and not nil means
	// none. See Selector.
	Modules []string
	// Namespaces limit the app's cache, for credentials that see only these. Empty means all.
	Namespaces []string
}

// Identity is which cluster a remote is expected to be.
type Identity struct {
	// Known is the id of an earlier contact, or empty. No app starts for a remote with another id.
	Known string
	// Accepted is an id that may replace Known.
	Accepted string
	// Rival is an older remote with the id Known that another hub runs, which makes this one a duplicate.
	Rival ClusterName
}

// CrashRecord is what ends of the hub's process say about an app; see the registry's Journal.
type CrashRecord struct {
	// Crashes counts ends during the start of the app. With one it starts after the apps without, as retries do.
	Crashes int
	// Alone has the app started last, and no other at the same time.
	Alone bool
	// Until is before when the app does not start. Zero is none.
	Until time.Time
}

// Probe configures the health probe. After a failure it runs every second until the remote responds.
type Probe struct {
	// Period is between probes of a healthy remote, jittered by 10 %. Default 5 s.
	Period time.Duration
	// Timeout bounds one probe. Default 3 s.
	Timeout time.Duration
	// FailureThreshold consecutive failures make a remote Unreachable. Default 3. A response that rejects the
	// credentials counts at once.
	FailureThreshold int
	// SuccessThreshold consecutive successes end an outage. Default 1.
	SuccessThreshold int
}

// ClientLimits limits the requests of one app, over all of its controllers.
type ClientLimits struct {
	// QPS and Burst are of the one token bucket. Defaults 500 and 1000.
	QPS   float64
	Burst int
	// Timeout bounds a request that is no list or watch. Default 10 s.
	Timeout time.Duration
}

// Defaults of Probe and ClientLimits: a remote that refuses connections is Unreachable within 7 s of its last
// successful probe, a silent one within 16 s.
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
	d.Probe.Period = cmp.Or(max(d.Probe.Period, 0), defaultProbePeriod)
	d.Probe.Timeout = cmp.Or(max(d.Probe.Timeout, 0), defaultProbeTimeout)
	d.Probe.FailureThreshold = cmp.Or(max(d.Probe.FailureThreshold, 0), defaultFailureThreshold)
	d.Probe.SuccessThreshold = cmp.Or(max(d.Probe.SuccessThreshold, 0), defaultSuccessThreshold)
	d.Client.QPS = cmp.Or(max(d.Client.QPS, 0), defaultQPS)
	d.Client.Burst = cmp.Or(max(d.Client.Burst, 0), defaultBurst)
	d.Client.Timeout = cmp.Or(max(d.Client.Timeout, 0), defaultRequestTimeout)
	return d
}

// Clone returns a copy that shares no map or slice with d.
func (d Desired) Clone() Desired {
	d.Labels, d.Annotations = maps.Clone(d.Labels), maps.Clone(d.Annotations)
	d.Modules, d.Namespaces = slices.Clone(d.Modules), slices.Clone(d.Namespaces)
	d.Endpoint.CAData = bytes.Clone(d.Endpoint.CAData)
	return d
}

// InvalidNameError is returned for the name of a remote that is not a DNS label.
type InvalidNameError struct {
	Name ClusterName
	Why  string
}

// Error quotes the name and says why it is invalid.
func (e *InvalidNameError) Error() string {
	return fmt.Sprintf("the name of a remote must be a DNS label, and %q is not one: %s", Sanitize(string(e.Name)), e.Why)
}
