// SPDX-License-Identifier: Apache-2.0

/*
Package hubconfig reads the configuration of a hub: the flags of the command run and the configuration file.

# Usage

	flags := hubconfig.Bind(cmd.Flags(), modules)
	...
	options, err := flags.Complete(log)    // reads the file of --config, and checks everything

	flags, err := hubconfig.CheckText(path, text, modules)    // a file without a command line

# How it works

A configuration file holds flags together with the configuration of the modules:

	apiVersion: config.clusterfx.dev/v1alpha1
	kind: HubConfiguration
	flags:
	  concurrency: 100
	  allow-cidr: [10.0.0.0/8]
	modules:
	- name: scanner
	  config: {interval: 1m}
	  overrides:
	  - selector: {matchLabels: {tier: edge}}
	    config: {interval: 10m}

A flag on the command line takes precedence over the file, and the file over the default. The file is read once, when
the program starts, and strictly: an unknown field, flag or module is an error, and so is a value that
a module rejects. All errors are reported together, and name the field.

# Considerations

The commands install, dev and config validate read the same file with the same checks, so that the hub accepts every
file that they accept. That is why this package is apart from the commands.

Packages below this one read no files and no environment variables, except for the variables of
OpenTelemetry (OTEL_*), which the command run leaves to package tracing.
*/
package hubconfig
