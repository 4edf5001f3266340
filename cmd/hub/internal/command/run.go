// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const runExample = `  # Against the current context of the kubeconfig
  %s run

  # Two hubs that stand by for each other, outside of a cluster
  %s run --alone=false --kubeconfig hub.kubeconfig

  # With flags and the configuration of modules in a file
  %s run --config hub.yaml

  # For remotes on this machine
  %s run --allow-cidr 127.0.0.0/8`

func newRun(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the hub against a management cluster",
		Long: "Run the hub against a management cluster, until SIGINT or SIGTERM stop it in good order.\n" +
			"A second signal ends it at once.\n\n" +
			"Traces go where the environment variables of OpenTelemetry say, over OTLP; without\n" +
			"OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER=otlp there are none.",
		Example: p.example(runExample),
		Args:    output.None,
	}
	f := hubconfig.Bind(cmd.Flags(), p.Modules)
	cmd.Flags().SortFlags = false
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		out := logging.NewBuffer(p.Stderr)
		defer out.Close()
		o, err := f.Complete(out)
		if err != nil {
			return err
		}
		if err := o.Registry.Metrics.Register(out); err != nil {
			o.Log.Error(err, "Failed to register the metrics of the log")
		}
		defer o.Registry.Metrics.Unregister(out)
		p.route(&o)
		traces, err := logging.StartTraces(cmd.Context(), logging.TraceOptions{
			Version: project.Version(), Replica: o.Registry.Replica, Log: o.Log.WithName("tracing"),
		})
		if err != nil { // A Pod may have been given variables that were not meant for it.
			o.Log.Error(err, "There are no traces")
		}
		defer traces.Stop(cmd.Context())
		o.Traces = traces.Provider()
		if p.Collector != nil {
			o.Starting = p.Collector()
		}
		o.Log.Info("Starting the hub", "version", project.Version(), "replica", o.Registry.Replica,
			"server", o.Config.Host, "modules", names(o.Modules), "alone", o.Alone, "activeReplicas", o.Active)
		if err := process.Run(cmd.Context(), o); err != nil {
			o.Log.Error(advise(err), "The hub ended")
			var exit process.ExitError
			if !errors.As(err, &exit) {
				exit = 1
			}
			return exit
		}
		o.Log.Info("The hub was stopped")
		return nil
	}
	return cmd
}

// route has all loggers of the process write to that of a hub, without credentials, and tells of its connection.
func (p Program) route(o *process.Options) {
	o.Registry.Secrets = &kubeconfig.Redactor{}
	o.Registry.Secrets.Set("", kubeconfig.CredentialOf(o.Config)) // for the first lines
	o.Log = registry.RedactingLogger(o.Log, o.Registry.Secrets)
	logging.Route(o.Log)
	if p.ObserveHub != nil {
		p.ObserveHub(o.Config)
	}
}

func advise(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another address with --metrics-bind-address, "+
			"--health-probe-bind-address, --debug-bind-address and --tunnel-bind-address, or 0 for nowhere", err)
	}
	return err
}

func names(modules []registry.Module) []string {
	var all []string
	for _, m := range modules {
		all = append(all, m.Name())
	}
	return all
}
