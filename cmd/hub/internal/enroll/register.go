// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Place has the clusters and names of a command. All are required, except Remote where a command says so.
type Place struct {
	Terminal *output.Terminal
	// Remote acts as its administrator.
	Hub, Remote     *access.Cluster
	Namespace, Name string
	// Yes skips the confirmation before the first change.
	Yes bool
	// Timeout bounds the wait for the hub. Zero does not wait.
	Timeout time.Duration
}

// Registration configures how to register a remote.
type Registration struct {
	Place
	// Server replaces that of Entry, unless empty.
	Entry   *clientcmdapi.Cluster
	Server  string
	Labels  map[string]string
	Modules []string
	// Account is the hub's in the remote. Prepare fills in its owner.
	Account Account
	// A Lasting Token has no Lifetime.
	Token    TokenKind
	Lifetime time.Duration
	// Rehearsal makes a second account for a registered Cluster, which may only dry-run, and no Cluster.
	Rehearsal bool
	// AllowHub permits that the remote is the hub's own cluster.
	AllowHub bool
	// Agent is the agent to install for a tunnel. Default: the hub connects to the remote itself.
	Agent *Agent
	// Policy is what the hub's flags are known to allow.
	Policy kubeconfig.Policy

	endpoint *clientcmdapi.Cluster
	renews   *corev1.Secret // of the account by which the hub renews the token of a rehearsal; nil for none
	known    *hubv1.Cluster // the existing Cluster with this name, or nil
}

const placeholder = "put-the-token-of-the-service-account-here"

// ErrNotReady means that all objects exist, but the hub did not report in time that the Cluster is Ready.
var ErrNotReady = errors.New("the Cluster is not Ready")

// errStalled ends a wait that cannot succeed.
var errStalled = fmt.Errorf("%w, and waiting does not change that", ErrNotReady)

// Prepare checks whether the remote can be registered, and changes nothing. Other methods need it.
func (r *Registration) Prepare(ctx context.Context) error {
	var err error
	if r.endpoint, err = r.endpointFor(ctx); err != nil {
		return err
	}
	hubID, err := r.Hub.ID(ctx)
	if err != nil {
		return err
	}
	r.Account.Name = cmp.Or(r.Account.Name, accountName(r.Name))
	r.Account.Owner = ownerOf(hubID, r.Name)
	r.Account.Renews, r.Account.Aggregates = r.Token == Requested, true
	if r.Rehearsal {
		if err := r.prepareRehearsal(ctx); err != nil {
			return err
		}
	}
	warning, err := judge(r.secretFor(token{value: placeholder}).Data, cluster.OptionsOf(r.clusterFor()), r.Policy)
	if err != nil {
		return err
	}
	if warning != "" {
		r.Terminal.Warn("%s", warning)
	}
	if r.Agent != nil && r.Remote != nil {
		if err := r.Agent.checkOwner(ctx, r.Remote, r.Account.Owner); err != nil {
			return err
		}
	}
	if err := r.checkIdentity(ctx, hubID); err != nil {
		return err
	}
	if r.Rehearsal && r.known == nil {
		return fmt.Errorf("there is no Cluster %s: register it first, without --rehearsal", r.Name)
	}
	return r.checkKnown()
}

// endpointFor is what a Pod of the remote reaches, with a tunnel.
func (r *Registration) endpointFor(ctx context.Context) (*clientcmdapi.Cluster, error) {
	if r.Agent == nil {
		return endpointOf(r.Entry, r.Server)
	}
	endpoint := &clientcmdapi.Cluster{Server: cmp.Or(r.Server, "https://"+DefaultTo)}
	if r.Remote == nil {
		return endpoint, nil // The administrator of the remote sends the CA with the token.
	}
	outside, err := endpointOf(r.Entry, "")
	if err != nil {
		return nil, err
	}
	if endpoint.CertificateAuthorityData, err = authority(ctx, r.Remote, r.Account.Namespace); err != nil {
		return nil, err
	}
	if len(endpoint.CertificateAuthorityData) == 0 {
		endpoint.CertificateAuthorityData = outside.CertificateAuthorityData
	}
	return endpoint, nil
}

// checkIdentity fails if the remote is the hub, or is registered under another name, or the name is taken.
func (r *Registration) checkIdentity(ctx context.Context, hubID string) error {
	id := "" // not known without the remote
	if r.Remote != nil {
		var err error
		if id, err = r.Remote.ID(ctx); err != nil {
			return err
		}
	}
	if id == hubID && !r.AllowHub {
		return fmt.Errorf("%s is the hub's own cluster: choose another context, or say --allow-hub if you mean it", r.Remote.What)
	}
	var list hubv1.ClusterList
	if err := r.Hub.List(ctx, &list); err != nil {
		return r.Hub.Explain(err)
	}
	for _, c := range list.Items {
		if c.Name == r.Name {
			r.known = &c
		}
		known := c.Annotations[hubv1.AnnotationID]
		switch {
		case c.Name != r.Name && known == id && id != "":
			return fmt.Errorf("%s is registered already, as Cluster %s: deregister that first", r.Remote.What, c.Name)
		case c.Name == r.Name && c.Spec.KubeconfigSecretRef.Name != r.Name:
			return fmt.Errorf("the name is taken: Cluster %s was not made by register; choose another one", r.Name)
		case c.Name == r.Name && known != "" && known != id && id != "":
			return fmt.Errorf("the name is taken: Cluster %s represents cluster %s, and %s is %s: choose another name or another context",
				r.Name, known, r.Remote.What, id)
		}
	}
	return nil
}

// Selecting returns labels and module names of the existing Cluster, or else the requested ones. Call Prepare first.
func (r *Registration) Selecting() (labels map[string]string, modules []string) {
	if r.known == nil {
		return r.Labels, r.Modules
	}
	return r.known.Labels, r.known.Spec.Modules
}

// checkKnown fails if an existing Cluster has other labels or modules: registering does not change it, and would grant
// permissions of modules that it does not name.
func (r *Registration) checkKnown() error {
	if r.known == nil {
		return nil
	}
	var differs []string
	for name, value := range r.Labels {
		if now, ok := r.known.Labels[name]; !ok || now != value {
			differs = append(differs, "label "+name+"="+value)
		}
	}
	slices.Sort(differs)
	if len(r.Modules) > 0 && !slices.Equal(slices.Sorted(slices.Values(r.Modules)), slices.Sorted(slices.Values(r.known.Spec.Modules))) {
		differs = append(differs, "modules "+strings.Join(r.Modules, ","))
	}
	if len(differs) == 0 {
		return nil
	}
	return fmt.Errorf("the name is taken: Cluster %s is registered already, without the %s: change it with kubectl edit clusters.%s %s, or deregister it first",
		r.Name, strings.Join(differs, ", "), hubv1.GroupName, r.Name)
}

// RequireRights returns an error that names the missing permissions of the user, in the hub or in the remote.
func (r *Registration) RequireRights(ctx context.Context) error {
	hub := r.Hub.Require(ctx, hubRights(r.Namespace, verbGet, verbCreate, verbUpdate))
	if r.Remote == nil {
		return hub
	}
	err := errors.Join(hub, r.Account.requireRights(ctx, r.Remote))
	if err == nil && !r.Rehearsal && !r.Account.Aggregates {
		r.Terminal.Warn("without the verbs escalate and bind you cannot make a role that aggregates others: bind the roles of rules of sync to %s/%s yourself",
			r.Account.Namespace, r.Account.Name)
	}
	if r.Agent != nil {
		err = errors.Join(err, r.Remote.Require(ctx, r.Agent.rights()))
	}
	return err
}

func hubRights(namespace string, verbs ...string) []rbac.Right {
	all := []rbac.Right{{Verb: verbGet, Group: hubv1.GroupName, Resource: "clusters"}}
	for _, verb := range verbs {
		if verb != verbPatch {
			all = append(all, rbac.Right{Verb: verb, Resource: "secrets", Namespace: namespace})
		}
		if verb == verbCreate || verb == verbPatch || verb == verbDelete {
			all = append(all, rbac.Right{Verb: verb, Group: hubv1.GroupName, Resource: "clusters"})
		}
	}
	return all
}

// Objects returns what to create, without the token, first in the remote, then in the hub.
func (r *Registration) Objects() (remote, hub []client.Object) {
	remote = r.Account.objects()
	if r.Agent != nil {
		agent, _ := r.Agent.objects(r.Account.Owner, "sha256:put-the-fingerprint-of-the-hub-here", r.endpoint.Server, false)
		remote = append(remote, agent...)
	}
	hub = []client.Object{r.secretFor(token{value: placeholder}), r.clusterFor()}
	if r.Rehearsal {
		hub = hub[:1]
	}
	return remote, hub
}

// DryRun has both API servers validate the objects.
func (r *Registration) DryRun(ctx context.Context) error {
	errs := []error{r.Account.make(ctx, r.Remote, client.DryRunAll)}
	_, hub := r.Objects()
	for _, o := range hub {
		err := r.Hub.Create(ctx, o, client.DryRunAll, fieldOwner)
		if !apierrors.IsAlreadyExists(err) {
			errs = append(errs, r.Hub.Explain(err))
		}
	}
	return errors.Join(errs...)
}

// Run prints its plan, asks for confirmation, creates the missing objects and waits until the Cluster is Ready. If only
// this wait failed, the error matches ErrNotReady.
func (r *Registration) Run(ctx context.Context) error {
	r.Plan()
	if !r.Yes {
		if err := r.Terminal.Ask(ctx, "Register the remote?"); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := r.Account.make(ctx, r.Remote); err != nil {
		return err
	}
	r.Terminal.Done("the account %s/%s is in the remote", r.Account.Namespace, r.Account.Name)
	made, err := r.Account.mint(ctx, r.Remote, r.Token, r.Lifetime)
	if err != nil {
		return err
	}
	if r.Rehearsal {
		if err := r.admitRehearsal(ctx, made); err != nil {
			return err
		}
	}
	secret := r.secretFor(made)
	if err := putSecret(ctx, r.Hub, secret); err != nil {
		return err
	}
	r.Terminal.Done("its token is in %s of the hub%s", nameOf(secret), ending(made))
	if r.Rehearsal {
		if err := r.markRehearsal(ctx); err != nil {
			return err
		}
		_, err := r.Account.revoke(ctx, r.Remote, made.anchor)
		return err
	}
	if err := r.Hub.Create(ctx, r.clusterFor(), fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return r.Hub.Failed("create Cluster "+r.Name, err)
	}
	if r.Agent != nil {
		if err := r.connect(ctx); err != nil {
			return err
		}
	}
	if err := r.waitReady(ctx, begin); err != nil {
		return err
	}
	if r.Timeout == 0 {
		return nil // Without the wait it is unknown whether the hub uses the new token.
	}
	_, err = r.Account.revoke(ctx, r.Remote, made.anchor) // the tokens of earlier attempts
	return err
}

func ending(made token) string {
	if made.expires.IsZero() {
		return ""
	}
	return fmt.Sprintf("; it ends at %s, and the hub renews it before that", made.expires.UTC().Format(time.RFC3339))
}

// Plan prints the objects that Run creates, and the permissions that the account gets.
func (r *Registration) Plan() {
	t := r.Terminal
	t.Text("In %s, %s:", r.Remote.What, r.Remote.Config.Host)
	for _, o := range r.Account.objects() {
		t.Text("  create %s", nameOf(o))
	}
	for _, rule := range r.Account.Rules {
		t.Text("    which may %s", access.Names(rbac.RightsOf([]rbacv1.PolicyRule{rule})))
	}
	if r.Token == Lasting {
		t.Text("  create a token for it that does not expire")
	} else {
		t.Text("  create a token for it that expires in %s, or earlier if the remote says so; the hub renews it", duration.HumanDuration(r.Lifetime))
	}
	if r.Agent != nil {
		t.Text("  create namespace %s with the agent, which connects to %s", r.Agent.Namespace, r.Agent.Hub)
	}
	t.Text("In %s, %s:", r.Hub.What, r.Hub.Config.Host)
	t.Text("  create secret %s/%s, with the token and the address %s", r.Namespace, r.Name, r.endpoint.Server)
	if !r.Rehearsal {
		t.Text("  create cluster.%s/%s", hubv1.GroupName, r.Name)
	}
}
