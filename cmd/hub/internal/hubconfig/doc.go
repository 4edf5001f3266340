// SPDX-License-Identifier: Apache-2.0

/*
Package hubconfig reads the configuration of a hub: the flags of run, and the configuration file.

	flags := hubconfig.Bind(cmd.Flags(), modules)
	...
	options, err := flags.Complete(log)    // reads the file of --config, and checks everything

The file has flags and the configuration of modules:

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

The command line goes before the file, the file before defaults. It is read once and strictly: unknown fields, flags
and modules, and values that a module rejects, are reported together, by their paths. The commands install, dev and
config validate use the same checks. Packages below read no files and no environment, but for OTEL_* (package
tracing).
*/
package hubconfig
