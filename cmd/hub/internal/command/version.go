// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
)

const versionExample = `  # Of this program, for a program
  %s version -o json`

type versions struct {
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

func (p Program) versions() versions {
	b := project.BuildOf(debug.ReadBuildInfo())
	return versions{
		Name: p.name(), Version: b.Version, Commit: b.Commit, Date: b.Date, Clusterfx: b.Clusterfx,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: testedVersions{clusterstatus.OldestKubernetes, clusterstatus.NewestKubernetes},
	}
}

func newVersion(p Program) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: "Print the version of this program, its commit, Go, and the versions of Kubernetes that it is tested with. The versions of\n" +
			"the hub's API server and its CRD are among what check prints.",
		Example: p.example(versionExample),
		Args:    output.None,
		RunE: func(*cobra.Command, []string) error {
			v := p.versions()
			if format.Tabular() {
				_, err := fmt.Fprintln(p.Stdout, strings.Join(v.lines(), "\n"))
				return err
			}
			return output.PrintData(p.Stdout, format, v)
		},
	}
	format.Bind(cmd.Flags(), "json or yaml. Default: a line for each")
	return cmd
}

func (v versions) lines() []string {
	lines := []string{fmt.Sprintf("%s %s, %s, %s", v.Name, v.Version, v.Go, v.Platform)}
	if v.Commit != "" {
		lines = append(lines, fmt.Sprintf("commit %s of %s", v.Commit, v.Date))
	}
	if v.Clusterfx != "" {
		lines = append(lines, "made with clusterfx "+v.Clusterfx)
	}
	return append(lines, fmt.Sprintf("tested with Kubernetes %s to %s", v.Kubernetes.Oldest, v.Kubernetes.Newest))
}

// defaultImage returns the image to install if no flag names one: of a release, and "" for a stock hub that was built from
// a checkout, for which the manifests have one. Another hub has no default: the stock hub lacks its modules.
func (p Program) defaultImage() (string, error) {
	if p.Stock {
		return project.ReleasedImage(project.Version()), nil
	}
	return "", fmt.Errorf("%s is not the stock hub, and no image is known that has its modules (%s): build one, and name it with --image; "+
		"see %s", p.name(), strings.Join(names(p.Modules), ", "), project.OwnHub)
}
