// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/diagnose"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
)

const versionExample = `  # Of this program
  %s version --client

  # Of the hub's API server and its CRD, too
  %s version -o json`

type versions struct {
	Client clientVersion `json:"clientVersion"`
	// Server and CRD are left out if no cluster was contacted, or none responded.
	Server *apimachineryversion.Info `json:"serverVersion,omitempty"`
	CRD    *diagnose.CRD             `json:"crd,omitempty"`
}

type clientVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Commit and Date are left out if the program was not built from a checkout.
	Commit   string `json:"gitCommit,omitempty"`
	Date     string `json:"commitDate,omitempty"`
	Go       string `json:"goVersion"`
	Platform string `json:"platform"`
	// Clusterfx is the version of the library in a hub of another module.
	Clusterfx string `json:"clusterfxVersion,omitempty"`
	// Kubernetes are the versions that the program is tested with.
	Kubernetes testedVersions `json:"testedKubernetes"`
}

type testedVersions struct {
	Oldest string `json:"oldest"`
	Newest string `json:"newest"`
}

func (p Program) clientVersion() clientVersion {
	b := project.BuildOf(debug.ReadBuildInfo())
	return clientVersion{
		Name: p.name(), Version: b.Version, Commit: b.Commit, Date: b.Date, Clusterfx: b.Clusterfx,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: testedVersions{clusterstatus.OldestKubernetes, clusterstatus.NewestKubernetes},
	}
}

func (c clientVersion) lines() []string {
	lines := []string{fmt.Sprintf("%s %s, %s, %s", c.Name, c.Version, c.Go, c.Platform)}
	if c.Commit != "" {
		lines = append(lines, fmt.Sprintf("commit %s of %s", c.Commit, c.Date))
	}
	if c.Clusterfx != "" {
		lines = append(lines, "made with clusterfx "+c.Clusterfx)
	}
	return append(lines, fmt.Sprintf("tested with Kubernetes %s to %s", c.Kubernetes.Oldest, c.Kubernetes.Newest))
}

const versionTimeout = 5 * time.Second

func newVersion(p Program) *cobra.Command {
	var s *session
	var format output.Format
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program, of the hub's API server and of its CRD",
		Long: "Print the versions of this program, of the hub's API server and of its CRD: of the program also its commit, Go, and\n" +
			"the versions of Kubernetes that it is tested with. Without a kubeconfig that is all; a hub that does not respond is an\n" +
			"error, after that.\n\n" +
			connectionHelp + "\n\n" + exitCodes,
		Example: p.example(versionExample),
		Args:    output.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Client: p.clientVersion()}
			if err := format.CheckData(); err != nil {
				return err
			}
			var asked error
			if hub, err := s.hub.Hub(); err == nil && !client {
				asked = v.ask(cmd.Context(), hub)
			}
			return errors.Join(v.print(p.Stdout, format.String()), asked)
		},
	}
	format.Bind(cmd.Flags(), "json or yaml. Default: a line for each")
	cmd.Flags().BoolVar(&client, "client", false, "Ask no cluster (default false)")
	s = p.newSession(cmd, false)
	complete(cmd, "output", completeFixed(output.JSON, output.YAML))
	return cmd
}

// ask asks the hub's cluster. Who may not read the CRD, or has none, sees the rest.
func (v *versions) ask(ctx context.Context, hub *access.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	data, err := hub.REST.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return hub.Explain(err)
	}
	v.Server = &apimachineryversion.Info{}
	if err := json.Unmarshal(data, v.Server); err != nil {
		return fmt.Errorf("%s does not tell its version: %w", hub.What, err)
	}
	if crd, err := diagnose.ReadCRD(ctx, hub, diagnose.ClusterResource); err == nil {
		v.CRD = &crd
	}
	return nil
}

func (v *versions) print(w io.Writer, format string) error {
	if format != output.Table {
		return output.PrintData(w, format, v)
	}
	lines := v.Client.lines()
	if v.Server != nil {
		lines = append(lines, "the hub's API server "+v.Server.GitVersion)
	}
	if v.CRD != nil {
		fresh := "a schema other than the schema of this program"
		if v.CRD.Fresh {
			fresh = "the schema of this program"
		}
		lines = append(lines, fmt.Sprintf("the hub's Clusters %s, with %s", strings.Join(v.CRD.Served, ", "), fresh))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

const (
	// stockModule and stockProgram are the Go module and the package of the stock hub.
	stockModule  = "github.com/clusterfx/clusterfx"
	stockProgram = stockModule + "/cmd/hub"
	// stockImage is the repository of the stock hub's image.
	stockImage = "ghcr.io/clusterfx/hub"
)

// IsStock reports whether a program was built from the package of the stock hub. A program without information on how it was
// built is not the stock hub.
func IsStock(info *debug.BuildInfo, ok bool) bool {
	return ok && info.Path == stockProgram && info.Main.Path == stockModule
}

// defaultImage returns the image to install if no flag names one: of a release, and "" for a stock hub that was built from
// a checkout, for which the manifests have one. Another hub has no default: the stock hub lacks its modules.
func (p Program) defaultImage() (string, error) {
	if p.Stock {
		return releasedImage(project.Version()), nil
	}
	return "", fmt.Errorf("%s is not the stock hub, and no image is known that has its modules (%s): build one, and name it with --image; "+
		"see %s", p.name(), strings.Join(names(p.Modules), ", "), project.OwnHub)
}

// releasedImage returns the image of a release, and nothing for a build from a checkout: the manifests have
// the image for that.
func releasedImage(version string) string {
	if !strings.HasPrefix(version, "v") || strings.ContainsAny(version, "-+") {
		return ""
	}
	return stockImage + ":" + version
}

// repositoryOf returns an image reference without its tag and its digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}
