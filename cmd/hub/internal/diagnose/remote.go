// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Target is a remote to check.
type Target struct {
	Cluster *access.Cluster
	// Policy decides which addresses a hub dials.
	Endpoint kubeconfig.Endpoint
	Policy   kubeconfig.Policy
	// Kind of the credentials, and their end; zero if unknown.
	Kind    string
	Expires time.Time
	Renewal string
	Rights  []Needs
	// HubID is the hub's own cluster, Known the identity that is recorded for the remote, Others are other Clusters by
	// theirs. All may be empty.
	HubID, Known string
	Others       map[string][]string
}

// Needs are the permissions that one part of the hub needs in a remote.
type Needs struct {
	By    string
	Rules []rbacv1.PolicyRule
}

// NeedsOf returns what the hub and these modules need.
func NeedsOf(modules []registry.Module) []Needs {
	all := []Needs{{By: "the hub", Rules: rbac.RemoteRules[registry.Module]()}}
	for _, m := range modules {
		if len(m.Rules()) > 0 {
			all = append(all, Needs{By: "module " + m.Name(), Rules: m.Rules()})
		}
	}
	return all
}

// Know fills in the identities and names of the other Clusters of the hub, and returns the identity
// of the hub's cluster.
func (t *Target) Know(ctx context.Context, hub *access.Cluster, own string) (string, error) {
	var list hubv1.ClusterList
	if err := hub.List(ctx, &list); err != nil {
		return "", hub.Explain(err)
	}
	t.Others = map[string][]string{}
	for _, c := range list.Items {
		if id := c.Annotations[hubv1.AnnotationID]; id != "" && c.Name != own {
			t.Others[id] = append(t.Others[id], c.Name)
		}
	}
	id, err := hub.ID(ctx)
	t.HubID = id
	if slices.ContainsFunc(list.Items, func(c hubv1.Cluster) bool {
		return c.Name == own && c.Annotations[hubv1.AnnotationAllowHub] == hubv1.AnnotationAllowHubValue
	}) {
		t.HubID = ""
	}
	return id, err
}

// The checks of a remote.
const (
	checkCredentials    = "credentials"
	checkAddress        = "address"
	checkTLS            = "tls"
	checkAuthentication = "authentication"
	checkHealth         = "health"
	checkVersion        = "version"
	checkClock          = "clock"
	checkRights         = "rights"
	checkIdentity       = "identity"
	checkTunnel         = "tunnel"
)

const requestTimeout = 10 * time.Second

// expiryWarning is that of the hub's status.
const expiryWarning = 7 * 24 * time.Hour

// Refused returns the report on credentials that a hub does not accept. parse reads them with another policy; nil means
// that none accepts them. The error has the advice.
func (t Target) Refused(err error, parse func(kubeconfig.Policy) error) Report {
	var r Report
	var refused *kubeconfig.Error
	advice := ""
	switch {
	case errors.As(err, &refused) && refused.Reason == kubeconfig.ReasonExpired:
		advice = t.Renewal
	case parse != nil:
		advice = flagFor(t.Policy, err, parse)
	}
	r.fail(checkCredentials, advice, "a hub refuses them: %v", err)
	return r
}

// flagFor names the flag of this command, and of the hub, that allows the setting, or "".
func flagFor(p kubeconfig.Policy, err error, parse func(kubeconfig.Policy) error) string {
	all := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	for flag, allow := range map[string]func(*kubeconfig.Policy){
		"--allow-cidr":              func(p *kubeconfig.Policy) { p.AllowCIDRs = all },
		"--allow-proxy-url":         func(p *kubeconfig.Policy) { p.AllowProxyURL = true },
		"--insecure-kubeconfig-tls": func(p *kubeconfig.Policy) { p.AllowInsecureTLS = true },
	} {
		wider := p
		allow(&wider)
		if next := parse(wider); next == nil || next.Error() != err.Error() {
			return "give this command the " + flag + " of the hub, if the hub runs with it"
		}
	}
	return ""
}

// NoSecret returns the report on a Secret that does not exist.
func NoSecret(key client.ObjectKey) Report {
	var r Report
	r.fail(checkCredentials, "create it, or look for it in another namespace with --credentials-namespace", "there is no Secret %s", key)
	return r
}

// Remote runs all checks. One without a response blocks for some seconds at most.
func Remote(ctx context.Context, t Target) Report {
	var r Report
	t.expiry(&r)
	if !t.network(ctx, &r) || !t.authentication(ctx, &r) {
		return r
	}
	t.health(ctx, &r)
	Server(ctx, t.Cluster, &r)
	t.rights(ctx, &r)
	t.identity(ctx, &r)
	return r
}

// BehindTunnel reports on a remote that only the hub reaches: its credentials, and what the hub says of the rest.
func (t Target) BehindTunnel(status *hubv1.ClusterStatus) Report {
	var r Report
	t.expiry(&r)
	r.warn(checkAddress, "", "this machine cannot reach %s, only the hub can, through the tunnel; what follows is what the hub says", t.Endpoint.Server)
	if now := status.Tunnel; now.Replica != "" {
		r.ok(checkTunnel, "the agent, version %s, is connected to %s since %s", now.AgentVersion, now.Replica, now.ConnectedTime.UTC().Format(time.RFC3339))
	}
	checks := map[string]string{hubv1.ConditionReachable: checkAuthentication, hubv1.ConditionAuthorized: checkRights}
	for _, c := range status.Conditions {
		switch check := checks[c.Type]; {
		case check == "":
		case c.Status == metav1.ConditionTrue:
			r.ok(check, "%s", c.Message)
		default:
			r.fail(check, "", "%s: %s", c.Reason, c.Message)
		}
	}
	return r
}

func (t Target) expiry(r *Report) {
	end := t.Expires.UTC().Format(time.RFC3339)
	left := time.Until(t.Expires)
	switch {
	case t.Expires.IsZero():
		r.ok(checkCredentials, "%s; they do not contain their expiry", t.Kind)
	case left <= 0:
		r.fail(checkCredentials, t.Renewal, "%s; they ended at %s", t.Kind, end)
	case left < expiryWarning:
		r.warn(checkCredentials, t.Renewal, "%s; they end at %s", t.Kind, end)
	default:
		r.ok(checkCredentials, "%s; they end at %s", t.Kind, end)
	}
}

func (t Target) authentication(ctx context.Context, r *Report) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	review := &authenticationv1.SelfSubjectReview{}
	err := t.Cluster.Create(ctx, review)
	switch {
	case err == nil:
		r.ok(checkAuthentication, "the remote knows the user %s", t.Cluster.Token(review.Status.UserInfo.Username))
		return true
	case apierrors.IsUnauthorized(err):
		r.fail(checkAuthentication, t.Renewal, "the remote does not accept the credentials")
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // an old API server
		r.warn(checkAuthentication, "", "the remote accepts the credentials, but does not name their user")
		return true
	default:
		_, message := kubeconfig.Classify(err)
		r.fail(checkAuthentication, "", "%s", message)
	}
	return false
}

func (t Target) health(ctx context.Context, r *Report) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(t.Cluster.Config, t.Cluster.HTTP)
	if err == nil {
		err = asks.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	switch {
	case err == nil:
		r.ok(checkHealth, "the API server is ready")
	case apierrors.IsForbidden(err):
		r.fail(checkHealth, "grant the user the role system:public-info-viewer", "the readiness of the remote is unknown: get /readyz is denied")
	default:
		_, message := kubeconfig.Classify(err)
		r.fail(checkHealth, "see kubectl get --raw '/readyz?verbose' there", "the API server is not ready: %s", message)
	}
}

func (t Target) rights(ctx context.Context, r *Report) {
	for _, needs := range t.Rights {
		missing, err := t.Cluster.Lacks(ctx, rbac.RightsOf(needs.Rules))
		switch {
		case err != nil:
			r.fail(checkRights, "", "%s: %v", needs.By, err)
		case len(missing) > 0:
			r.fail(checkRights, "hub rbac --in remote prints the role that grants them", "%s lacks %s", needs.By, access.Names(missing))
		default:
			r.ok(checkRights, "%s has all it needs", needs.By)
		}
	}
}

func (t Target) identity(ctx context.Context, r *Report) {
	id, err := t.Cluster.ID(ctx)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		r.warn(checkIdentity, "grant get namespaces kube-system", "the identity of the cluster is unknown: %v", err)
	case t.HubID != "" && id == t.HubID:
		r.fail(checkIdentity, "register another cluster, or see the annotation clusterfx.dev/allow-hub",
			"this is the hub's own cluster, %s", id)
	case t.Known != "" && t.Known != id:
		r.fail(checkIdentity, "correct the Secret; or, if the cluster was rebuilt, set the annotation clusterfx.dev/accept-id to "+id,
			"this is cluster %s, but the hub has recorded %s", id, t.Known)
	case len(t.Others[id]) > 0:
		r.fail(checkIdentity, t.duplicateAdvice(), "cluster %s is registered already, as %s", id, strings.Join(t.Others[id], ", "))
	case t.Known == "":
		r.ok(checkIdentity, "cluster %s, which is not recorded yet", id)
	default:
		r.ok(checkIdentity, "cluster %s, as recorded", id)
	}
}

func (t Target) duplicateAdvice() string {
	if t.Known == "" {
		return "use that Cluster, or deregister it before you register this"
	}
	return "deregister all names but one"
}

const (
	dialTimeout = 5 * time.Second
	// certificateWarning is how long before its end a server's certificate should be renewed.
	certificateWarning = 14 * 24 * time.Hour
)

// network returns false if later checks cannot run.
func (t Target) network(ctx context.Context, r *Report) bool {
	server, err := url.Parse(t.Endpoint.Server)
	if err != nil || server.Hostname() == "" {
		r.fail(checkAddress, "correct the server's URL", "%q is not the URL of a server", t.Endpoint.Server)
		return false
	}
	if t.Endpoint.ProxyURL != "" {
		r.warn(checkAddress, "", "the hub reaches %s through a proxy, so the proxy resolves its address", t.Endpoint.Server)
		return true
	}
	addrs, ok := t.lookUp(ctx, server.Hostname(), r)
	if !ok {
		return false
	}
	connection, ok := dial(ctx, addrs, cmp.Or(server.Port(), "443"), r)
	if !ok {
		return false
	}
	defer func() { _ = connection.Close() }()
	return t.handshake(ctx, connection, server.Hostname(), r)
}

// lookUp returns what a hub would dial.
func (t Target) lookUp(ctx context.Context, host string, r *Report) ([]netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		r.fail(checkAddress, "correct the name in the server's URL, or the DNS", "the name %s cannot be resolved on this machine: %v", host, err)
		return nil, false
	}
	for _, addr := range found {
		if err := t.Policy.CheckAddr(addr.Unmap()); err != nil {
			advice := flagFor(t.Policy, err, func(p kubeconfig.Policy) error { return p.CheckAddr(addr.Unmap()) })
			r.fail(checkAddress, advice, "a hub refuses %s: %v", host, err)
			return nil, false
		}
	}
	return found, true
}

func dial(ctx context.Context, addrs []netip.Addr, port string, r *Report) (net.Conn, bool) {
	var texts []string
	var last error
	for _, addr := range addrs {
		address := net.JoinHostPort(addr.Unmap().String(), port)
		begin := time.Now()
		connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
		if err == nil {
			r.ok(checkAddress, "%s accepted a connection after %s", address, time.Since(begin).Round(time.Millisecond/10))
			return connection, true
		}
		texts, last = append(texts, address), err
	}
	r.fail(checkAddress, "check that the API server runs, and the network on the way to it: firewalls, security groups, VPNs",
		"no connection to %s: %v", strings.Join(texts, ", "), last)
	return nil, false
}

func (t Target) handshake(ctx context.Context, connection net.Conn, host string, r *Report) bool {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(t.Endpoint.TLSServerName, host)}
	if len(t.Endpoint.CAData) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(t.Endpoint.CAData)
	}
	config.InsecureSkipVerify = t.Endpoint.Insecure //nolint:gosec // The credentials request it, and the report contains a warning.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secure := tls.Client(connection, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		advice := "put the certificate of the authority into the kubeconfig, or correct the server's name"
		if ctx.Err() != nil {
			advice = "check the API server and its load balancer: one of them accepts connections but sends no response"
		}
		r.fail(checkTLS, advice, "no secure connection as %s: %v", config.ServerName, t.Cluster.Quote(err.Error()))
		return false
	}
	certificate := secure.ConnectionState().PeerCertificates[0]
	end := certificate.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case t.Endpoint.Insecure:
		r.warn(checkTLS, "put the certificate of the authority into the kubeconfig", "the certificate of the server is not verified")
	case time.Until(certificate.NotAfter) < certificateWarning:
		r.warn(checkTLS, "renew the certificate of the API server", "the certificate of the server ends at %s", end)
	default:
		r.ok(checkTLS, "the certificate is good for %s until %s", config.ServerName, end)
	}
	return true
}
