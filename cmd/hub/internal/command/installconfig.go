// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// readConfig reads the file of --config, if there is one, and checks it as the command config validate does.
func (f *installFlags) readConfig(p Program) error {
	if f.config == "" {
		return nil
	}
	text, err := hubconfig.ReadText(f.config)
	if err != nil {
		return err
	}
	return f.takeConfig(p, f.config, text)
}

// keepConfig takes over the configuration file of the installed hub. It is checked like a new one: this program may have
// other modules.
func (f *installFlags) keepConfig(p Program, installed install.Installed) error {
	from := fmt.Sprintf("ConfigMap %s/%s", f.options.Namespace, install.ConfigMapName)
	if err := f.takeConfig(p, from, []byte(installed.Config)); err != nil {
		return fmt.Errorf("the configuration of the installed hub does not fit this program; name another file with --%s:\n%w", hubconfig.ConfigFlag, err)
	}
	return nil
}

// takeConfig checks the text of a configuration file and adds it to the options.
func (f *installFlags) takeConfig(p Program, path string, text []byte) error {
	modules, file, err := p.configured(path, text)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("%s: a ConfigMap holds text in UTF-8 only; save the file as such", path)
	}
	if len(text) > install.MaxConfigBytes {
		return fmt.Errorf("%s: it has %d bytes, and a ConfigMap holds %d; make it smaller", path, len(text), install.MaxConfigBytes)
	}
	f.options.Config, f.options.Rules = string(text), roles.OfHub(modules, roles.Lease)
	return f.checkFits(p, file)
}

// installedFlags are the flags that the manifests set or rely on, such as the ports of the probes and the roles.
func installedFlags() []string {
	return []string{
		"kubeconfig", "context", "credentials-namespace", "leader-elect", "leader-elect-namespace", "leader-elect-id",
		"impersonate-apps", "apps-namespace", "replicas-mode", "shards", "metrics-bind-address", "health-probe-bind-address", "debug-bind-address", "crash-file",
	}
}

// checkFits returns an error for each flag in the file that would contradict the manifests.
func (f *installFlags) checkFits(p Program, file *hubconfig.Flags) error {
	objects, err := install.Objects(f.options)
	if err != nil {
		return err
	}
	_, args, err := install.Hub(objects)
	if err != nil {
		return err
	}
	args = append(slices.Clone(args), "--credentials-namespace="+f.options.Namespace, "--replica-name=hub") // They are variables there.
	installed, err := hubconfig.Parse(args, p.Modules)
	if err != nil {
		return fmt.Errorf("read the arguments of the hub: %w", err)
	}
	var problems []error
	for _, name := range installedFlags() {
		if want := installed.Value(name); file.InFile(name) && file.Value(name) != want {
			problems = append(problems, fmt.Errorf("%s: flags: %s: an installed hub has %q; remove it from the file, and see install --help "+
				"for the settings of an installation", file.File(), name, want))
		}
	}
	return errors.Join(problems...)
}

// checkImage returns an error if the stock hub is about to take the place of a hub of the user's own without being asked to.
func (f *installFlags) checkImage(p Program, installed install.Installed) error {
	if !p.Stock || f.named || installed.Image == "" || repositoryOf(installed.Image) == stockImage {
		return nil
	}
	return fmt.Errorf("the installed hub runs another image than the stock one: Deployment %s/%s runs the image %s; run the command install of the program in that image, which has its modules "+
		"and their roles, or name an image with --image, such as --image=%s:latest, to replace that image",
		f.options.Namespace, install.DeploymentName, installed.Image, stockImage)
}
