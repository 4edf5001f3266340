// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// installTarget is the hub's cluster with a client that asks it for the kinds.
type installTarget struct {
	hub    *access.Cluster
	client client.Client
}

func (s *session) installTarget() (installTarget, error) {
	hub, err := s.hub.Hub()
	if err != nil {
		return installTarget{}, err
	}
	c, err := client.New(hub.Config, client.Options{HTTPClient: hub.HTTP})
	return installTarget{hub, c}, hub.Explain(err)
}

// installRehearsal installs what the command rehearse needs, beside the hub. Only in a cluster it knows the rules of sync.
func (f *installFlags) installRehearsal(ctx context.Context, s *session, mode dryRun) error {
	if f.export || mode == dryRunClient {
		objects, err := install.Rehearsal(f.options, nil)
		if err != nil {
			return err
		}
		return install.Write(s.terminal.Out, objects)
	}
	to, err := s.installTarget()
	if err != nil {
		return err
	}
	installed, err := install.Find(ctx, to.client, f.options.Namespace)
	if err != nil {
		return to.hub.Explain(err)
	}
	if f.config == "" && installed.Config != "" { // It rehearses with the configuration of the hub.
		if err := f.keepConfig(s.program, installed); err != nil {
			return err
		}
	}
	if err := f.options.Rules.AddRules(ctx, to.hub, to.client.RESTMapper()); err != nil {
		return to.hub.Explain(err)
	}
	unlimited, err := enroll.Aggregated(ctx, to.hub)
	if err != nil {
		return err
	}
	objects, err := install.Rehearsal(f.options, unlimited)
	if err != nil {
		return err
	}
	s.terminal.Step("%d objects for namespace %s of the cluster at %s", len(objects), roles.RehearsalNamespace, to.hub.Config.Host)
	if err := f.ask(ctx, s); err != nil {
		return err
	}
	if err := f.applyAll(ctx, s, to, objects); err != nil {
		return err
	}
	s.terminal.Text("Next: %s register NAME --rehearsal --cluster-context CONTEXT, for each remote; then\n"+
		"      kubectl -n %s create job --from=cronjob/%s rehearsal-1", s.program.name(), roles.RehearsalNamespace, roles.RehearsalAccount)
	return nil
}
