// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/registry"
)

const configExample = `  # Is the file right?
  %s config validate hub.yaml`

func newConfig(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Short:   "Check the configuration file of a hub",
		Long:    "Check the configuration file of a hub, which run --config, install --config and dev --config read.",
		Example: p.example(configExample),
	}, &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files, without a cluster",
		Long: "Check configuration files: their fields, the names and values of flags, and the configuration of modules, with\n" +
			"the checks of the modules themselves. Every problem is printed with its file and field. It reads no cluster.\n\n" +
			"The command knows the modules of this program: check the file of a custom hub with that hub.\n\n" +
			"Exit status: 0 if all files are right, 1 if not.",
		Example: p.example(configExample),
		Args:    output.Some("the path of a configuration file"),
		RunE:    func(_ *cobra.Command, args []string) error { return p.validateFiles(args) },
	})
}

func (p Program) validateFiles(paths []string) error {
	var status error
	for _, path := range paths {
		out, text := p.Stdout, path+" is right"
		if _, _, err := p.configuredBy(path); err != nil {
			out, text, status = p.Stderr, err.Error(), process.ExitError(1)
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return status
}

// bindConfig adds the flag --config of the commands that compute the permissions of modules for a hub that runs.
func bindConfig(set *pflag.FlagSet, to *string) {
	set.StringVar(to, hubconfig.ConfigFlag, "", "File of kind "+hubconfig.Kind+" of the hub, for modules whose permissions follow "+
		"from their configuration. Default: the installed file, if there is one")
}

// configured returns the modules with the configuration in the text of a file, which has a path, and the flags that it sets.
func (p Program) configured(path string, text []byte) ([]registry.Module, *hubconfig.Flags, error) {
	file, err := hubconfig.CheckText(path, text, p.Modules)
	if err != nil {
		return nil, nil, err
	}
	modules, err := registry.ConfigureModules(p.Modules, file.Options.Registry.ModuleConfigs)
	return modules, file, err
}

func (p Program) configuredBy(path string) ([]registry.Module, *hubconfig.Flags, error) {
	text, err := hubconfig.ReadText(path)
	if err != nil {
		return nil, nil, err
	}
	return p.configured(path, text)
}

// modules returns the modules of the program with the configuration of the hub: that of the file at a path, or else that of the
// installed hub. It fails without that configuration if permissions of one of the modules that are needed follow from it.
func (s *session) modules(ctx context.Context, path string, needed []registry.Module) ([]registry.Module, error) {
	p := s.program
	if path != "" {
		modules, _, err := p.configuredBy(path)
		return modules, err
	}
	depend := withConfigRules(needed)
	installed, err := s.installed(ctx)
	if err != nil && len(depend) == 0 {
		if apierrors.IsForbidden(err) {
			s.terminal.Warn("the configuration of the installed hub, which may select more modules, cannot be read; name its file with --%s: %v",
				hubconfig.ConfigFlag, err)
		}
		return p.Modules, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the permissions of %s follow from the configuration of the hub; name its file with --%s, or: %w",
			moduleNames(depend), hubconfig.ConfigFlag, err)
	}
	if installed.Config == "" {
		if installed.Image == "" && len(depend) > 0 {
			s.terminal.Warn("no hub is installed in namespace %s, so the permissions of %s are those of the default configuration; "+
				"name the file of a hub that runs elsewhere with --%s", s.hub.Namespace, moduleNames(depend), hubconfig.ConfigFlag)
		}
		return p.Modules, nil
	}
	modules, _, err := p.configured("ConfigMap "+s.hub.Namespace+"/"+install.ConfigMapName, []byte(installed.Config))
	return modules, unfit(err)
}

// unfit explains that a program reads the configuration of a hub that was installed by another one.
func unfit(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the configuration of the installed hub does not fit this program; name another file with --%s:\n%w", hubconfig.ConfigFlag, err)
}

func (s *session) installed(ctx context.Context) (install.Installed, error) {
	hub, err := s.hub.Hub()
	if err != nil {
		return install.Installed{}, err
	}
	found, err := install.Find(ctx, hub, s.hub.Namespace)
	return found, hub.Explain(err)
}

func withConfigRules(modules []registry.Module) []registry.Module {
	return slices.DeleteFunc(slices.Clone(modules), func(m registry.Module) bool { return !m.HasConfigRules() })
}

func moduleNames(modules []registry.Module) string {
	if len(modules) == 1 {
		return "module " + modules[0].Name()
	}
	return "modules " + strings.Join(names(modules), ", ")
}
