// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/internal/tunnel"
)

// hubKey returns the fingerprint of the hub's key, which is made if there is none.
func (p *Place) hubKey(ctx context.Context) (string, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: hubv1.TunnelSecretName, Labels: map[string]string{labelManagedBy: managedBy},
	}}
	fingerprint, err := makeKey(ctx, p.Hub, secret, hubv1.TunnelSecretKey)
	return fingerprint, p.Hub.Explain(err)
}

// acceptKeys names the keys of a Cluster's agent in its Secret.
func (p *Place) acceptKeys(ctx context.Context, cluster *hubv1.Cluster, keys ...string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: cluster.Spec.KubeconfigSecretRef.Name}}
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTunnelKeys, strings.Join(append([]string{cluster.Name + "/" + string(cluster.UID)}, keys...), " "))
	err := p.Hub.Patch(ctx, secret, client.MergeFrom(before), fieldOwner)
	return p.Hub.Failed("accept the key of the agent in "+nameOf(secret), err)
}

// checkUnused fails if the Secret of another Cluster names the key.
func (p *Place) checkUnused(ctx context.Context, key, own string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := p.Hub.List(ctx, list, client.InNamespace(p.Namespace)); err != nil {
		return p.Hub.Failed("list the Secrets with keys of agents", err)
	}
	for _, one := range list.Items {
		if one.Name != own && slices.Contains(strings.Fields(one.Annotations[hubv1.AnnotationTunnelKeys]), key) {
			return fmt.Errorf("the key is accepted by Secret %s, too, and a key in two Secrets serves neither: give each agent a key of its own", one.Name)
		}
	}
	return nil
}

// Acceptance is the hub's half of a registration by two people.
type Acceptance struct {
	Place
	// Key is the fingerprint that the administrator of the remote has read there.
	Key string
	// Token is the manifest of the Secret with the token in the remote. Empty keeps the credentials in the hub.
	Token []byte

	hubID   string
	cluster hubv1.Cluster
}

// Prepare checks the Cluster and the key, and changes nothing.
func (a *Acceptance) Prepare(ctx context.Context) (err error) {
	if !tunnel.IsFingerprint(a.Key) {
		return fmt.Errorf("%q is not a fingerprint: use sha256: and 64 hexadecimal digits, as the agent logs it", a.Key)
	}
	if a.hubID, err = a.Hub.ID(ctx); err != nil {
		return err
	}
	if err := a.Hub.Get(ctx, client.ObjectKey{Name: a.Name}, &a.cluster); err != nil {
		return a.Hub.Explain(err)
	}
	if a.cluster.Spec.Via != hubv1.ViaTunnel {
		return fmt.Errorf("the hub reaches Cluster %s without a tunnel: set spec.via to %s first", a.Name, hubv1.ViaTunnel)
	}
	return a.checkUnused(ctx, a.Key, a.cluster.Spec.KubeconfigSecretRef.Name)
}

// Run stores the token, if there is one, and the key, and waits until the Cluster is Ready.
func (a *Acceptance) Run(ctx context.Context) error {
	r := &Registration{Place: a.Place}
	if len(a.Token) > 0 {
		secret, err := a.secret(r)
		if err != nil {
			return err
		}
		if err := putSecret(ctx, a.Hub, secret); err != nil {
			return err
		}
		a.Terminal.Done("the token is in %s of the hub", nameOf(secret))
	}
	if err := a.acceptKeys(ctx, &a.cluster, a.Key); err != nil {
		return err
	}
	a.Terminal.Done("the hub accepts the agent with the key %s", a.Key)
	return r.waitReady(ctx, time.Now())
}

var errNoToken = errors.New("the file is not the Secret with the token of the hub's account: in the remote, " +
	"kubectl get secret -n NAMESPACE clusterfx-NAME -o yaml prints it")

func (a *Acceptance) secret(r *Registration) (*corev1.Secret, error) {
	var from corev1.Secret
	if err := yaml.Unmarshal(a.Token, &from); err != nil { // The error would quote the token.
		return nil, errNoToken
	}
	owner := ownerOf(a.hubID, a.Name)
	if len(from.Data[tokenKey]) == 0 || len(from.Data[caKey]) == 0 {
		return nil, errNoToken
	}
	if from.Annotations[annotationOwner] != owner {
		return nil, fmt.Errorf("the token is for %s, not for %s: use the manifest that hub register --export has printed for this Cluster",
			strings.ToValidUTF8(fmt.Sprintf("%.100q", from.Annotations[annotationOwner]), "?"), owner)
	}
	r.Account = Account{Namespace: from.Namespace, Name: from.Annotations[corev1.ServiceAccountNameKey], Owner: owner}
	r.endpoint = &clientcmdapi.Cluster{Server: a.cluster.Spec.Server, CertificateAuthorityData: from.Data[caKey]}
	return r.secretFor(token{value: string(from.Data[tokenKey]), anchor: from.Name}), nil
}

// tokenSecret is the anchor of a token that the remote makes itself, for a manifest.
func (a Account) tokenSecret() *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: a.meta(a.Namespace), Type: corev1.SecretTypeServiceAccountToken,
	}
	secret.Annotations[corev1.ServiceAccountNameKey] = a.Name
	return secret
}

// Export creates the hub's half of a registration, which waits for Acceptance, and returns the objects for the remote.
func (r *Registration) Export(ctx context.Context) ([]client.Object, error) {
	err := r.Hub.Create(ctx, r.clusterFor(), fieldOwner)
	if client.IgnoreAlreadyExists(err) != nil {
		return nil, r.Hub.Failed("create Cluster "+r.Name, err)
	}
	key, err := r.hubKey(ctx)
	if err != nil {
		return nil, err
	}
	agent, err := r.Agent.objects(r.Account.Owner, key, r.endpoint.Server, true)
	if err != nil {
		return nil, err
	}
	return slices.Concat(r.Account.objects(), []client.Object{r.Account.tokenSecret()}, agent), nil
}

// connect installs the agent in the remote, and has the hub accept its key.
func (r *Registration) connect(ctx context.Context) error {
	hubKey, err := r.hubKey(ctx)
	if err != nil {
		return err
	}
	objects, err := r.Agent.objects(r.Account.Owner, hubKey, r.endpoint.Server, false)
	if err != nil {
		return err
	}
	if err := apply(ctx, r.Remote, objects[:1]); err != nil { // the Namespace
		return err
	}
	key, err := r.Agent.keyIn(ctx, r.Remote, r.Account.Owner)
	if err != nil {
		return err
	}
	var cluster hubv1.Cluster
	if err := r.Hub.Get(ctx, client.ObjectKey{Name: r.Name}, &cluster); err != nil {
		return r.Hub.Explain(err)
	}
	if err := r.checkUnused(ctx, key, r.Name); err != nil {
		return err
	}
	if err := r.acceptKeys(ctx, &cluster, key); err != nil {
		return err
	}
	if err := apply(ctx, r.Remote, objects[1:]); err != nil {
		return err
	}
	r.Terminal.Done("the agent is in namespace %s of the remote, with the key %s", r.Agent.Namespace, key)
	return nil
}

// authority returns the CA of the API server for Pods of the remote, which may be another than for its administrators.
func authority(ctx context.Context, remote *access.Cluster, namespace string) ([]byte, error) {
	var found corev1.ConfigMap
	err := remote.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, &found)
	return []byte(found.Data[caKey]), remote.Explain(client.IgnoreNotFound(err))
}
