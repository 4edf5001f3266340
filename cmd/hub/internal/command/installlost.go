// SPDX-License-Identifier: Apache-2.0

package command

import (
	"maps"
	"slices"
	"strings"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
)

// warnLost names the arguments of the installed hub that this installation takes away, and how to keep each.
func (f *installFlags) warnLost(s *session, lost []string) {
	loses := "has these arguments, which this installation does not have"
	if f.apply.ForceConflicts {
		loses = "loses these arguments"
	}
	arguments := map[string][]string{}
	for _, argument := range lost {
		advice := keepArgument(argument)
		arguments[advice] = append(arguments[advice], argument)
	}
	for _, advice := range slices.Sorted(maps.Keys(arguments)) {
		s.terminal.Warn("Deployment %s/%s %s: %s; %s",
			f.options.Namespace, install.DeploymentName, loses, strings.Join(arguments[advice], " "), advice)
	}
}

// keepArgument says how an installation keeps an argument of the hub, if it can.
func keepArgument(argument string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
	switch {
	case name == hubconfig.ConfigFlag:
		return "to keep the configuration, name its file with --" + hubconfig.ConfigFlag
	case name == "impersonate-apps", name == "apps-namespace":
		return "to keep them, give install the flags of the same names"
	case slices.Contains(installedFlags(), name):
		return "install sets these flags itself and cannot keep other values"
	}
	return "to keep them, put them as flags into a file for --" + hubconfig.ConfigFlag
}
