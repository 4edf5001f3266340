// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Keys of the Secret in the hub.
const (
	tokenKey  = corev1.ServiceAccountTokenKey
	caKey     = corev1.ServiceAccountRootCAKey
	serverKey = "server"
)

// endpointOf is for the hub.
func endpointOf(entry *clientcmdapi.Cluster, server string) (*clientcmdapi.Cluster, error) {
	if entry.InsecureSkipTLSVerify {
		return nil, errors.New("the context does not verify the remote's certificate, and a hub refuses that: " +
			"use a context with the certificate of the remote's authority")
	}
	if strings.Contains(entry.ProxyURL, "@") {
		return nil, errors.New("the context's proxy asks for a password, and that would show in the Cluster: " +
			"make the Secret yourself, with a kubeconfig in it")
	}
	endpoint := &clientcmdapi.Cluster{
		Server: entry.Server, TLSServerName: entry.TLSServerName, ProxyURL: entry.ProxyURL,
		CertificateAuthorityData: entry.CertificateAuthorityData,
	}
	if server != "" {
		endpoint.Server = server
	}
	if len(endpoint.CertificateAuthorityData) == 0 && entry.CertificateAuthority != "" {
		data, err := os.ReadFile(entry.CertificateAuthority)
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the remote's authority: %w", err)
		}
		endpoint.CertificateAuthorityData = data
	}
	return endpoint, nil
}

// judge fails if every hub would refuse the data, and warns if only some accept it and this one is not known to.
func judge(data map[string][]byte, o kubeconfig.Options, known kubeconfig.Policy) (warning string, err error) {
	if _, err := kubeconfig.Parse(data, o, lenient()); err != nil {
		return "", fmt.Errorf("a hub would refuse the Secret: %w", err)
	}
	if _, err := kubeconfig.Parse(data, o, known); err != nil {
		return fmt.Sprintf("the hub refuses this unless its operator allows it: %v", err), nil
	}
	return "", nil
}

// lenient is the most that an operator can allow, but for unverified certificates.
func lenient() kubeconfig.Policy {
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	return kubeconfig.Policy{AllowProxyURL: true, AllowCIDRs: everywhere}
}

// record says where the account is.
type record struct {
	secret  corev1.Secret
	account Account
}

// readRecord returns nil without a Secret of register.
func readRecord(ctx context.Context, hub *access.Cluster, key client.ObjectKey) (*record, error) {
	var r record
	err := hub.Get(ctx, key, &r.secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, hub.Explain(fmt.Errorf("read Secret %s: %w", key, err))
	}
	var ok bool
	if r.account, ok = accountIn(&r.secret); !ok {
		return nil, nil
	}
	return &r, nil
}

func accountIn(secret *corev1.Secret) (Account, bool) {
	namespace, name, ok := strings.Cut(secret.Annotations[annotationAccount], "/")
	_, renews := secret.Annotations[hubv1.AnnotationRenewToken]
	return Account{
		Namespace: namespace, Name: name, Owner: secret.Annotations[annotationOwner], Renews: renews, Aggregates: true,
		Rehearses: secret.Namespace == hubv1.RehearsalNamespace,
	}, ok
}

// MadeByRegister reports whether register made a Secret for a Cluster of this hub. Rotate refuses all others.
func MadeByRegister(secret *corev1.Secret, hubID, cluster string) bool {
	account, ok := accountIn(secret)
	return ok && account.Owner == ownerOf(hubID, cluster)
}

// secretFor asks the hub to renew a token that ends.
func (r *Registration) secretFor(made token) *corev1.Secret {
	a := r.Account
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: r.Name, Labels: map[string]string{labelManagedBy: managedBy},
			Annotations: map[string]string{annotationOwner: a.Owner, annotationAccount: a.Namespace + "/" + a.Name},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{serverKey: []byte(r.endpoint.Server)},
	}
	if ca := r.endpoint.CertificateAuthorityData; len(ca) > 0 {
		secret.Data[caKey] = ca
	}
	if r.Agent != nil {
		secret.Annotations[annotationAgent] = r.Agent.Namespace
	}
	a.put(secret, made)
	return secret
}

func (a Account) put(secret *corev1.Secret, made token) {
	secret.Data[tokenKey] = []byte(made.value)
	if made.anchor != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationAnchor, made.anchor)
	}
	if a.Renews {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationRenewToken, a.Namespace+"/"+a.Name)
	} else {
		delete(secret.Annotations, hubv1.AnnotationRenewToken)
	}
}

func (r *Registration) clusterFor() *hubv1.Cluster {
	cluster := &hubv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: hubv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Labels: r.Labels},
		Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: r.Name, Key: tokenKey},
			TLSServerName:       r.endpoint.TLSServerName,
			ProxyURL:            r.endpoint.ProxyURL,
			Modules:             r.Modules,
		},
	}
	if r.Agent != nil {
		cluster.Spec.Via, cluster.Spec.Server = hubv1.ViaTunnel, r.endpoint.Server
	}
	if r.AllowHub {
		cluster.Annotations = map[string]string{hubv1.AnnotationAllowHub: hubv1.AnnotationAllowHubValue}
	}
	return cluster
}

// putSecret replaces only data of an earlier register.
func putSecret(ctx context.Context, hub *access.Cluster, secret *corev1.Secret) error {
	err := hub.Create(ctx, secret, fieldOwner)
	if !apierrors.IsAlreadyExists(err) {
		return hub.Failed("create "+nameOf(secret), err)
	}
	key := client.ObjectKeyFromObject(secret)
	known, err := readRecord(ctx, hub, key)
	if err != nil {
		return err
	}
	if known == nil || known.account.Owner != secret.Annotations[annotationOwner] {
		return fmt.Errorf("%s exists in the hub and was not made by register: choose another name, or delete it", nameOf(secret))
	}
	secret.ResourceVersion = known.secret.ResourceVersion
	ours := secret.Labels
	secret.Labels = map[string]string{}
	maps.Copy(secret.Labels, known.secret.Labels) // labels of others stay
	maps.Copy(secret.Labels, ours)
	return hub.Failed("update "+nameOf(secret), hub.Update(ctx, secret, fieldOwner))
}
