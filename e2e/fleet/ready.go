// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// A busy machine may take seconds.
	requestTimeout = 30 * time.Second
	// A starting cluster may not respond to one question, but to the next.
	askTimeout = 5 * time.Second
)

// httpClient keeps no connection.
func (a access) httpClient() (*http.Client, error) {
	tlsConfig, err := rest.TLSConfigFor(a.config())
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true},
	}, nil
}

// awaitReady: the standard namespaces exist, too. died ends the wait.
func (c *Cluster) awaitReady(ctx context.Context, died func() error) error {
	return c.await(ctx, died, func(ctx context.Context) error {
		if err := c.kube.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return fmt.Errorf("ask if it is ready: %w", err)
		}
		for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
			if _, err := c.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitServiceAccount: Pods can be created in the namespace default.
func (c *Cluster) awaitServiceAccount(ctx context.Context, died func() error) error {
	return c.await(ctx, died, func(ctx context.Context) error {
		_, err := c.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// await returns the last error of check at the end. The context of a check has a deadline.
func (c *Cluster) await(ctx context.Context, died func() error, check func(context.Context) error) error {
	var problem error
	err := poll(ctx, readyPeriod, func() bool {
		if problem = died(); problem != nil {
			return true
		}
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		failure := check(asking)
		if ctx.Err() == nil {
			problem = failure
		}
		return failure == nil
	})
	if err != nil {
		return fmt.Errorf("wait for cluster %s: %w", c.Name(), errors.Join(err, problem))
	}
	return problem
}
