// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/internal/tunnel"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// DefaultTo is the API server for a Pod of its cluster.
const DefaultTo = "kubernetes.default.svc:443"

// Agent is the agent in a remote that the hub cannot reach.
type Agent struct {
	Hub       string // Hub is the address of the hub's listener for agents.
	Namespace string // Namespace of the agent. All objects but those of the account are in it.
	Image     string // Image of the agent. Default: that of the manifests.
}

// AgentNamespace is that of the manifests.
const AgentNamespace = "clusterfx-agent"

const (
	agentKeySecret  = "clusterfx-agent-key"
	agentKeyFile    = "key.pem"
	annotationAgent = "clusterfx.dev/agent-namespace" // on the Secret in the hub
)

// objects returns the agent's objects, and the Job that makes its key, if one is needed. The Namespace is the first.
func (a *Agent) objects(owner, hubKey, server string, makesKey bool) ([]client.Object, error) {
	to, err := hostPort(server)
	if err != nil {
		return nil, err
	}
	manifests := string(config.Agent)
	if makesKey {
		manifests += "\n---\n" + string(config.AgentKey)
	}
	image := cmp.Or(a.Image, "ghcr.io/clusterfx/hub:latest")
	objects, err := access.Objects([]byte(strings.NewReplacer(
		"namespace: clusterfx-agent", "namespace: "+strconv.Quote(a.Namespace),
		"image: ghcr.io/clusterfx/hub:latest", "image: "+strconv.Quote(image),
		"--hub=wss://hub.example.com", strconv.Quote("--hub="+a.Hub),
		"--hub-key=sha256:"+strings.Repeat("0", sha256.Size*2), strconv.Quote("--hub-key="+hubKey),
		"--to=kubernetes.default.svc:443", strconv.Quote("--to="+to),
	).Replace(manifests)))
	if err != nil {
		return nil, fmt.Errorf("the manifests of the agent: %w", err)
	}
	var all []client.Object
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			object.SetName(a.Namespace)
		}
		labels := object.GetLabels()
		labels[labelManagedBy] = managedBy
		object.SetLabels(labels)
		object.SetAnnotations(map[string]string{annotationOwner: owner})
		all = append(all, object)
	}
	return all, nil
}

func hostPort(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("--cluster-server=%q: use https://host:port", server)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), nil
}

func (a *Agent) rights() []rbac.Right {
	var all []rbac.Right
	for _, one := range []rbac.Right{
		{Resource: "namespaces"},
		{Resource: "serviceaccounts", Namespace: a.Namespace},
		{Group: "networking.k8s.io", Resource: "networkpolicies", Namespace: a.Namespace},
		{Group: "apps", Resource: "deployments", Namespace: a.Namespace},
	} {
		one.Verb = verbCreate
		all = append(all, one)
		one.Verb = verbPatch
		all = append(all, one)
	}
	for _, verb := range []string{verbGet, verbCreate} {
		all = append(all, rbac.Right{Verb: verb, Resource: "secrets", Namespace: a.Namespace})
	}
	return all
}

// checkOwner fails if the Namespace of the agent belongs to another owner. Its owner is that of all objects in it.
func (a *Agent) checkOwner(ctx context.Context, remote *access.Cluster, owner string) error {
	var found corev1.Namespace
	err := remote.Get(ctx, client.ObjectKey{Name: a.Namespace}, &found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return remote.Explain(fmt.Errorf("read the Namespace %s: %w", a.Namespace, err))
	}
	if found.Annotations[annotationOwner] != owner {
		return fmt.Errorf("the Namespace %s exists in the remote and does not belong to %s: choose another one with --agent-namespace", a.Namespace, owner)
	}
	return nil
}

// remove deletes the Namespace with everything in it.
func (a *Agent) remove(ctx context.Context, remote *access.Cluster, owner string) error {
	if err := a.checkOwner(ctx, remote, owner); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Namespace}}
	return remote.Failed("delete "+nameOf(namespace), client.IgnoreNotFound(remote.Delete(ctx, namespace)))
}

func apply(ctx context.Context, remote *access.Cluster, objects []client.Object) error {
	for _, o := range objects {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("apply a %T", o)
		}
		err := remote.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
		if err != nil {
			return remote.Explain(fmt.Errorf("apply %s %s: %w", strings.ToLower(object.GetKind()), o.GetName(), err))
		}
	}
	return nil
}

// replaceKey gives the agent in the remote another key, which it uses when its Pod has it: after a minute or two.
func (a *Agent) replaceKey(ctx context.Context, remote *access.Cluster, key tunnel.Key) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: agentKeySecret}}
	before := secret.DeepCopy()
	secret.Data = map[string][]byte{agentKeyFile: key.PEM()}
	return remote.Failed("replace the key in "+nameOf(secret), remote.Patch(ctx, secret, client.MergeFrom(before), fieldOwner))
}

// keyIn returns the key of the agent in the remote, which is made if there is none. The private key stays there.
func (a *Agent) keyIn(ctx context.Context, remote *access.Cluster, owner string) (fingerprint string, err error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.Namespace, Name: agentKeySecret,
		Labels: map[string]string{labelManagedBy: managedBy}, Annotations: map[string]string{annotationOwner: owner},
	}}
	fingerprint, err = makeKey(ctx, remote, secret, agentKeyFile)
	return fingerprint, remote.Explain(err)
}

// makeKey creates a Secret with a new key, or reads the key of the one that exists.
func makeKey(ctx context.Context, c client.Client, secret *corev1.Secret, file string) (fingerprint string, err error) {
	key, err := tunnel.NewKey()
	if err != nil {
		return "", err
	}
	secret.Data = map[string][]byte{file: key.PEM()}
	err = c.Create(ctx, secret, fieldOwner)
	if err == nil {
		return key.Fingerprint(), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create %s: %w", nameOf(secret), err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return "", fmt.Errorf("read %s: %w", nameOf(secret), err)
	}
	if key, err = tunnel.ParseKey(secret.Data[file]); err != nil {
		return "", fmt.Errorf("read %s: %w", nameOf(secret), err)
	}
	return key.Fingerprint(), nil
}

const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// MakeAgentKey creates the Secret with the agent's key in the namespace of this Pod, unless there is one, and returns the fingerprint.
func MakeAgentKey(ctx context.Context, name string) (fingerprint string, err error) {
	connection, err := rest.InClusterConfig()
	if err != nil {
		return "", fmt.Errorf("find the cluster of this Pod: %w", err)
	}
	namespace, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return "", fmt.Errorf("find the namespace of this Pod: %w", err)
	}
	c, err := client.New(connection, client.Options{})
	if err != nil {
		return "", fmt.Errorf("build a client: %w", err)
	}
	return makeKey(ctx, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: string(namespace), Name: name}}, agentKeyFile)
}
