// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	versions "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const (
	// More than clockWarning confuses people, more than clockLimit credentials.
	clockWarning = 10 * time.Second
	clockLimit   = time.Minute
)

// Server reads the version and the clock of an API server, and adds both to a report.
func Server(ctx context.Context, c *access.Cluster, r *Report) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.Config.Host, "/")+"/version", nil)
	if err != nil {
		r.fail(checkVersion, "", "%v", err)
		return
	}
	begin := time.Now()
	answer, err := c.HTTP.Do(request)
	if err != nil {
		_, message := kubeconfig.Classify(err)
		r.fail(checkVersion, "", "%s", message)
		return
	}
	took := time.Since(begin)
	defer func() { _ = answer.Body.Close() }()
	var info version.Info
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, 1<<16)).Decode(&info); err != nil || answer.StatusCode != http.StatusOK {
		r.fail(checkVersion, "check that this is a Kubernetes API server", "the server does not report its version (status %d)", answer.StatusCode)
	} else {
		info.GitVersion = c.Token(info.GitVersion)
		skew(info, r)
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		clock(date.Sub(begin.Add(took/2)), took, r)
	}
}

func skew(info version.Info, r *Report) {
	const oldest, newest = clusterstatus.OldestKubernetes, clusterstatus.NewestKubernetes
	found, err := versions.ParseGeneric(info.GitVersion)
	switch {
	case err != nil:
		r.warn(checkVersion, "", "%s is not a known version of Kubernetes", info.GitVersion)
	case clusterstatus.IsTested(info.GitVersion):
		r.ok(checkVersion, "%s", info.GitVersion)
	case found.LessThan(versions.MustParseGeneric(oldest)):
		r.warn(checkVersion, "upgrade the cluster", "%s is older than v%s, the oldest version that this hub is tested with", info.GitVersion, oldest)
	default:
		r.warn(checkVersion, "use a newer version of the hub", "%s is newer than v%s, the newest version that this hub is tested with", info.GitVersion, newest)
	}
}

// The header has whole seconds.
func clock(off, took time.Duration, r *Report) {
	const advice = "set the clock of the remote or of this machine; check its NTP service"
	least := max(0, off.Abs()-took/2-time.Second)
	switch {
	case least > clockLimit:
		r.fail(checkClock, advice, "the clock is off by %s", off.Round(time.Second))
	case least > clockWarning:
		r.warn(checkClock, advice, "the clock is off by %s", off.Round(time.Second))
	default:
		r.ok(checkClock, "the clock is right, to about a second")
	}
}

// readCRD returns which versions of a resource of the hub are served, and whether the schema is this program's. The error matches
// apierrors.IsNotFound if there is no CRD.
func readCRD(ctx context.Context, hub *access.Cluster, resource string) (served []string, isFresh bool, err error) {
	var theirs, ours apiextensionsv1.CustomResourceDefinition
	name := resource + "." + hubv1.GroupName
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, &theirs); err != nil {
		return nil, false, fmt.Errorf("read the CRD %s: %w", name, err)
	}
	file, err := config.CRDs.ReadFile("crd/" + hubv1.GroupName + "_" + resource + ".yaml")
	if err == nil {
		err = yaml.Unmarshal(file, &ours)
	}
	if err != nil {
		return nil, false, err
	}
	for _, v := range theirs.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	return served, slices.EqualFunc(theirs.Spec.Versions, ours.Spec.Versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return a.Name == b.Name && a.Served == b.Served && equality.Semantic.DeepEqual(a.Schema, b.Schema)
	}), nil
}
