// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// hubName is also the hub's context in the kubeconfig.
const hubName = "hub"

func regions() []string { return []string{"eu", "us", "ap"} }

// startClusters starts all at once, and installs the CRD as soon as it can: for two seconds after that, an API server
// lets the first object wait.
func (d *demo) startClusters(ctx context.Context) error {
	o := fleet.Options{Provider: fleet.Provider(d.provider), Dir: d.folder.path(fleetDir), Image: d.image}
	switch o.Provider {
	case fleet.Kind:
		d.terminal.Step("starting %d clusters with kind; the first time it fetches an image", d.clusters+1)
		o.Log = indented{d.terminal}
	default:
		d.terminal.Step("starting %d clusters: kube-apiserver and etcd, as processes of this machine", d.clusters+1)
	}
	var err error
	if d.fleet, err = fleet.New(ctx, o); err != nil {
		return fmt.Errorf("start the clusters: %w", err)
	}
	d.remotes = make([]remote, d.clusters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		hub, err := d.startCluster(ctx, hubName, 0)
		if err != nil {
			return err
		}
		d.hub = hub.Cluster
		return d.install(ctx)
	})
	for i := range d.remotes {
		group.Go(func() (err error) {
			all := regions()
			region := all[i%len(all)]
			d.remotes[i], err = d.startCluster(ctx, fmt.Sprintf("edge-%s-%d", region, i/len(all)+1), i+1)
			d.remotes[i].region = region
			return err
		})
	}
	return group.Wait()
}

func (d *demo) startCluster(ctx context.Context, name string, number int) (remote, error) {
	begin := time.Now()
	create := func() (*fleet.Cluster, error) { return d.fleet.Create(ctx, name) }
	if version := d.version(number); version != "" {
		create = func() (*fleet.Cluster, error) { return d.fleet.CreateVersion(ctx, name, version) }
	}
	c, err := create()
	if err != nil {
		return remote{}, err
	}
	r := remote{Cluster: c}
	if r.version, err = versionOf(c); err != nil {
		return r, fmt.Errorf("ask %s for its version: %w", name, err)
	}
	d.terminal.Done("%-12s %s   Kubernetes %s   %s", name, c.Server(), r.version, since(begin))
	return r, nil
}

// versionOf asks the API server: KUBEBUILDER_ASSETS may name any.
func versionOf(c *fleet.Cluster) (string, error) {
	asks, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return "", err
	}
	found, err := asks.ServerVersion()
	if err != nil {
		return "", err
	}
	return found.GitVersion, nil
}

// install creates what a hub needs, but for its Pods and permissions, and returns when the API server serves the CRDs.
func (d *demo) install(ctx context.Context) (err error) {
	if d.client, err = client.New(d.hub.Config(), client.Options{Scheme: d.scheme}); err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	objects, err := install.Objects(install.Options{})
	if err != nil {
		return err
	}
	const crdKind = "CustomResourceDefinition"
	for _, one := range objects {
		kind := one.GetKind()
		if !slices.Contains([]string{crdKind, "Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}, kind) {
			continue
		}
		err := d.client.Create(ctx, one)
		if err == nil && kind == crdKind {
			err = access.Poll(ctx, pollPeriod, func() (bool, error) {
				var now apiextensionsv1.CustomResourceDefinition
				err := d.client.Get(ctx, client.ObjectKeyFromObject(one), &now)
				return apihelpers.IsCRDConditionTrue(&now, apiextensionsv1.Established), err
			})
		}
		if err != nil {
			return fmt.Errorf("install %s %s: %w", kind, one.GetName(), err)
		}
	}
	return nil
}

func readObjects(path string) ([]*unstructured.Unstructured, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the objects of --apply: %w", err)
	}
	objects, err := access.Objects(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, one := range objects {
		if one.GetKind() == "" || one.GetAPIVersion() == "" || one.GetName() == "" {
			return nil, fmt.Errorf("%s: object %d lacks apiVersion, kind or metadata.name", path, i+1)
		}
	}
	return objects, nil
}

// kindTimeout is how long the hub's cluster may take to serve a kind that was applied before.
const kindTimeout = 30 * time.Second

func (d *demo) applyObjects(ctx context.Context) error {
	if len(d.objects) == 0 {
		return nil
	}
	d.terminal.Step("applying %s of %s to the hub", output.Count(len(d.objects), "object"), d.apply)
	for _, obj := range d.objects {
		if err := d.applyObject(ctx, obj); err != nil {
			return fmt.Errorf("apply %s %s of %s: %w", obj.GetKind(), obj.GetName(), d.apply, err)
		}
	}
	for i := range d.rules {
		if err := roles.FindResource(d.client.RESTMapper(), &d.rules[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) applyObject(ctx context.Context, obj *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	var missing error
	err := access.Poll(ctx, pollPeriod, func() (bool, error) {
		err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(d.program.Name+"-dev"), client.ForceOwnership)
		if meta.IsNoMatchError(err) {
			missing = err
			return false, nil
		}
		return true, err
	})
	if missing != nil && errors.Is(err, context.DeadlineExceeded) {
		return missing
	}
	return err
}

// writeKubeconfig writes one kubeconfig with a context by the name of each cluster; the hub's is the current one.
func (d *demo) writeKubeconfig(context.Context) error {
	all := clientcmdapi.NewConfig()
	for _, c := range d.fleet.Clusters() {
		if err := addContext(all, c); err != nil {
			return fmt.Errorf("write the kubeconfig: %w", err)
		}
	}
	all.CurrentContext = hubName
	if err := (access.Dev{Policy: d.prepared.Policy, NATS: d.natsURL}).Write(all.Clusters[hubName]); err != nil {
		return err
	}
	text, err := clientcmd.Write(*all)
	if err == nil {
		err = d.folder.writeNew(kubeconfigFile, text)
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

func addContext(all *clientcmdapi.Config, c *fleet.Cluster) error {
	one, err := clientcmd.Load(c.Kubeconfig())
	if err != nil {
		return err
	}
	current, ok := one.Contexts[one.CurrentContext]
	if !ok {
		return fmt.Errorf("the kubeconfig of %s has no current context", c.Name())
	}
	name := c.Name()
	all.Clusters[name] = one.Clusters[current.Cluster]
	all.AuthInfos[name] = one.AuthInfos[current.AuthInfo]
	all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	return nil
}

// indented puts text of others below our own lines.
type indented struct{ t *output.Terminal }

// Write expects whole lines.
func (i indented) Write(data []byte) (int, error) {
	i.t.Text("  %s", strings.ReplaceAll(strings.TrimRight(string(data), "\n"), "\n", "\n  "))
	return len(data), nil
}

func since(begin time.Time) string { return fmt.Sprintf("%.1fs", time.Since(begin).Seconds()) }
