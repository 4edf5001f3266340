// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Either cert and key are set, or token.
type access struct {
	cluster, user string
	server        string
	ca            []byte
	cert, key     []byte
	token         string
}

func (a access) config() *rest.Config {
	return &rest.Config{
		Host:            a.server,
		BearerToken:     a.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.ca, CertData: a.cert, KeyData: a.key},
		QPS:             -1,
	}
}

// Writing can only fail for types that are not registered, which these are.
func (a access) kubeconfig() []byte {
	c := clientcmdapi.NewConfig()
	c.Clusters[a.cluster] = &clientcmdapi.Cluster{Server: a.server, CertificateAuthorityData: a.ca}
	c.AuthInfos[a.user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: a.cert, ClientKeyData: a.key, Token: a.token,
	}
	c.Contexts[a.cluster] = &clientcmdapi.Context{Cluster: a.cluster, AuthInfo: a.user}
	c.CurrentContext = a.cluster
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(fmt.Sprintf("encode a kubeconfig: %v", err))
	}
	return data
}

// At returns a kubeconfig for the same port of another of Options.Addresses. Hundreds of addresses of one API server
// can stand for as many clusters.
func At(kubeconfig []byte, addr netip.Addr) ([]byte, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for name, cluster := range c.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, fmt.Errorf("read the server of cluster %s: %w", name, err)
		}
		server.Host = net.JoinHostPort(addr.String(), server.Port())
		cluster.Server = server.String()
	}
	return clientcmd.Write(*c)
}

// serviceAccount creates it if it is missing.
func (c *Cluster) serviceAccount(ctx context.Context, u User) (*corev1.ServiceAccount, error) {
	accounts := c.kube.CoreV1().ServiceAccounts(u.Namespace)
	sa, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: u.Name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		sa, err = accounts.Get(ctx, u.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("make service account %s: %w", u.Name, err)
	}
	return sa, nil
}

func (c *Cluster) deleteServiceAccount(ctx context.Context, u User) error {
	err := c.kube.CoreV1().ServiceAccounts(u.Namespace).Delete(ctx, u.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete service account %s: %w", u.Name, err)
	}
	return nil
}

// bindToken makes a Secret: the token is valid while that exists.
func (c *Cluster) bindToken(ctx context.Context, sa *corev1.ServiceAccount) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-" + sa.Name + "-"}}
	secret, err := c.kube.CoreV1().Secrets(sa.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("bind a token of service account %s: %w", sa.Name, err)
	}
	return secret, nil
}

// unbindToken ends one token, without the minute for which an API server accepts it after its own end.
func (c *Cluster) unbindToken(ctx context.Context, secret *corev1.Secret) error {
	err := c.kube.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
