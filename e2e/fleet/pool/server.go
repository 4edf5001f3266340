// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

type server struct {
	cluster *fleet.Cluster
	role    Role
	http    *http.Client // the administrator's; its connections are kept from test to test

	admin     client.Client
	objects   metadata.Interface
	discovery *discovery.DiscoveryClient
	fresh     contents                             // the contents before the first test
	usual     map[schema.GroupVersionResource]bool // the kinds of what tests have left behind
}

func newServer(ctx context.Context, c *fleet.Cluster, r Role) (*server, error) {
	s := &server{cluster: c, role: r, usual: map[schema.GroupVersionResource]bool{}}
	if err := s.connect(); err != nil {
		return nil, fmt.Errorf("build the clients for %s: %w", c.Name(), err)
	}
	if r == Hub {
		if err := s.prepareForHub(ctx); err != nil {
			return nil, fmt.Errorf("prepare %s for a hub: %w", c.Name(), err)
		}
	}
	all, err := s.resources()
	if err == nil {
		s.fresh, err = s.contents(ctx, all)
	}
	return s, err
}

func (s *server) connect() error {
	config := s.cluster.Config()
	config.WarningHandler = rest.NoWarnings{} // It also lists deprecated kinds.
	config.Timeout = cleanTimeout
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, apiextensionsv1.AddToScheme)
	err := builder.AddToScheme(scheme)
	var errs [4]error
	s.http, errs[0] = rest.HTTPClientFor(config)
	if errs[0] != nil {
		return errs[0]
	}
	s.admin, errs[1] = client.New(config, client.Options{Scheme: scheme, HTTPClient: s.http})
	s.objects, errs[2] = metadata.NewForConfigAndClient(config, s.http)
	s.discovery, errs[3] = discovery.NewDiscoveryClientForConfigAndClient(config, s.http)
	return errors.Join(append(errs[:], err)...)
}

func (s *server) prepareForHub(ctx context.Context) error {
	crds, err := ReadCRDs(config.CRDs)
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}
	return errors.Join(InstallCRDs(ctx, s.admin, crds), s.admin.Create(ctx, ns))
}

const (
	// cleanTimeout: a new server costs less than a longer cleaning.
	cleanTimeout = 10 * time.Second
	// cleanPeriod is between two checks.
	cleanPeriod = 30 * time.Millisecond
)

// clean returns nil when the server has exactly its first contents. After an error it cannot be used. It looks for objects
// of the usual kinds until there are none, and then of all, since it takes a hundred requests to list all.
func (s *server) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("it is not clean after %s", cleanTimeout))
	defer cancel()
	ticker := time.NewTicker(cleanPeriod)
	defer ticker.Stop()
	var left contents
	for isWhole := len(s.usual) == 0; ; <-ticker.C {
		now, err := s.left(ctx, isWhole)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: there is %s still", context.Cause(ctx), left)
		case err != nil:
			return err
		case len(now) == 0 && isWhole:
			return nil
		}
		left, isWhole = now, len(now) == 0
		for key := range left {
			s.usual[key.GroupVersionResource] = true
		}
		if err := s.remove(ctx, left); err != nil {
			return fmt.Errorf("remove %s: %w", left, err)
		}
	}
}

// left lists what tests have left behind, of the usual kinds or of all.
func (s *server) left(ctx context.Context, isWhole bool) (contents, error) {
	resources := slices.Collect(maps.Keys(s.usual))
	if isWhole {
		var err error
		if resources, err = s.resources(); err != nil {
			return nil, err
		}
	}
	now, err := s.contents(ctx, resources)
	if err != nil {
		return nil, fmt.Errorf("list its contents: %w", err)
	}
	if isWhole {
		err = now.damage(s.fresh)
	}
	return now.added(s.fresh), err
}
