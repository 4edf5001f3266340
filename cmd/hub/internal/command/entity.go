// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/entities"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

const entityExample = `  # The entities of a bucket, and in how many clusters they are ready
  %s entity get tenants

  # Accept a bucket that was restored from a backup
  %s entity accept tenants`

const entityGetExample = `  # The entities of a bucket
  %s entity get tenants

  # One of them, with its value and its status in each cluster
  %s entity get tenants acme -o yaml`

const entityAcceptExample = `  # Look at a bucket that was restored, and accept it
  %s entity bucket status tenants
  %s entity get tenants
  %s entity accept tenants`

func newEntity(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:   "entity",
		Short: "Read and apply the entities of modules in NATS, and accept restored buckets",
		Long: "Read and apply the entities of modules, which are values in the key-value buckets of a NATS server: the target state\n" +
			"that does not live in Kubernetes. The command nats of the NATS project edits, deletes and watches values: nats kv get,\n" +
			"put, del and watch BUCKET KEY.",
		Example: p.example(entityExample),
	}, newEntityGet(p), newEntityApply(p), newEntityBucket(p), newEntityAccept(p))
}

func newEntityGet(p Program) *cobra.Command {
	var format output.Format
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "get BUCKET [KEY]",
		Short: "Print the entities of a bucket, or one of them, with their status",
		Long: "Print the entities of a bucket, or one of them: the key, the revision, and in how many of the clusters that it\n" +
			"concerns it is ready. The formats yaml and json have the values, and the status in each cluster.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example(entityGetExample),
		Args:    output.Between(1, 2, "a bucket, and may have a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.onStore(cmd.Context(), args[0], func(ctx context.Context, store *entities.Store) error {
				list, err := readEntities(ctx, store, args[1:])
				switch {
				case err != nil:
					return err
				case !format.Tabular() && len(args) > 1:
					return output.PrintData(s.terminal.Out, format, list[0])
				case !format.Tabular():
					return output.PrintData(s.terminal.Out, format, list)
				case len(list) == 0:
					s.terminal.Text("The bucket has no entities.")
					return nil
				}
				return format.Print(s.terminal.Out, entityTable(list))
			})
		},
	}
	format.Bind(cmd.Flags(), "json or yaml. Default: a table")
	s = p.newNATSSession(cmd)
	return cmd
}

func readEntities(ctx context.Context, store *entities.Store, key []string) ([]entities.Document, error) {
	if len(key) == 0 {
		return store.List(ctx)
	}
	d, err := store.Get(ctx, key[0])
	return []entities.Document{d}, err
}

func entityTable(list []entities.Document) output.List {
	table := output.List{Columns: []string{"Key", "Revision", "Ready", "Changed"}}
	for i := range list {
		d := &list[i]
		ready := "-"
		if n, all := d.Ready(); all > 0 {
			ready = fmt.Sprintf("%d/%d", n, all)
		}
		age := duration.HumanDuration(max(0, time.Since(d.Created)))
		table.Items = append(table.Items, output.Item{Cells: []any{d.Key, fmt.Sprint(d.Revision), ready, age}})
	}
	return table
}

func newEntityApply(p Program) *cobra.Command {
	var file string
	var dryRun bool
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "apply BUCKET KEY -f FILE",
		Short: "Create or replace an entity, after a check of its value",
		Long: "Create or replace an entity with the value in a file, in YAML or JSON. A module of this program that reads the bucket\n" +
			"checks the value, and refuses a field that it does not know. The write replaces nothing that another client writes\n" +
			"meanwhile.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example("  %s entity apply tenants acme -f acme.yaml"),
		Args:    output.Between(2, 2, "a bucket and a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := s.readValue(cmd.InOrStdin(), file, args[0])
			if err != nil {
				return fmt.Errorf("entity %s: %w", args[1], err)
			}
			return s.onStore(cmd.Context(), args[0], func(ctx context.Context, store *entities.Store) error {
				result, err := store.Apply(ctx, args[1], value, dryRun)
				if err != nil {
					return err
				}
				text := fmt.Sprintf(" (revision %d)", result.Revision)
				if dryRun {
					text = " (dry run)"
				}
				return s.terminal.Print("entity/%s of bucket %s %s%s", args[1], args[0], result.Done, text)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "File with the value; - for the standard input")
	_ = cmd.MarkFlagRequired("filename") // It fails for unknown flags only.
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Check the value and print what would be done, and write nothing (default false)")
	s = p.newNATSSession(cmd)
	return cmd
}

func (s *natsSession) readValue(in io.Reader, file, bucket string) ([]byte, error) {
	text, err := readInput(in, file)
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	value, err := entities.Parse(text, s.checkOf(bucket))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return value, nil
}

func newEntityAccept(p Program) *cobra.Command {
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "accept BUCKET",
		Short: "Accept a bucket that was recreated or restored from a backup",
		Long: "Accept a bucket that was recreated or restored from a backup. Until then the hub follows its entities, and deletes no\n" +
			"object because an entity is missing. Afterwards it deletes the objects of entities that the bucket does not have,\n" +
			"within the limits of deletes: look at the bucket before. The command writes the identity of the bucket into the\n" +
			"ConfigMap " + natshub.AnchorName + " of the hub, which notices within seconds.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example(entityAcceptExample),
		Args:    output.OneName("the name of a bucket"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				anchor, id, err := s.anchorOf(ctx, args[0])
				if err != nil {
					return err
				}
				accepted, err := natshub.Accept(ctx, js, anchor, id)
				if err != nil {
					return err
				}
				return s.terminal.Print("bucket/%s accepted (created %s, canary %d)", args[0], accepted.Created.Format(time.RFC3339), accepted.Counter)
			})
		},
	}
	s = p.newNATSSession(cmd)
	return cmd
}

const natsURL = "NATS_URL"

const natsHelp = "The NATS server is that of --nats-url, of $NATS_URL, of the kubeconfig of dev --nats, or of the configuration of the installed hub,\n" +
	"in this order. The command uses the network of this machine."

const natsTimeout = 30 * time.Second

type natsSession struct {
	*session
	nats natshub.Options
	conn interface{ Close() }
}

func (p Program) newNATSSession(cmd *cobra.Command) *natsSession {
	s := &natsSession{}
	hubconfig.BindNATS(cmd.Flags(), &s.nats)
	s.session = (&session{program: p}).bind(cmd, true)
	return s
}

var errNoNATS = errors.New("no NATS server is known: name it with --nats-url")

func (s *natsSession) connect(ctx context.Context) (jetstream.JetStream, error) {
	o := s.nats
	if o.URL = cmp.Or(o.URL, os.Getenv(natsURL), s.hub.Dev().NATS); o.URL == "" {
		found, err := s.installedNATS(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w, or: %w", errNoNATS, err)
		}
		o.URL, o.Domain = found.URL, cmp.Or(o.Domain, found.Domain)
	}
	if o.URL == "" {
		return nil, errNoNATS
	}
	conn, js, err := natshub.Dial(ctx, o, natshub.Environment{HubID: "cli"})
	if err != nil {
		return nil, fmt.Errorf("%w; check --nats-url, and the credential of --nats-creds or --nats-nkey", err)
	}
	s.conn = conn
	return js, nil
}

func (s *natsSession) installedNATS(ctx context.Context) (natshub.Options, error) {
	installed, err := s.installed(ctx)
	if err != nil || installed.Config == "" {
		return natshub.Options{}, err
	}
	_, file, err := s.program.configured(fmt.Sprintf("ConfigMap %s/%s", s.hub.Namespace, install.ConfigMapName), []byte(installed.Config))
	if err != nil {
		return natshub.Options{}, err
	}
	return file.Options.NATS, nil
}

func (s *natsSession) run(ctx context.Context, f func(ctx context.Context, js jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	js, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	return f(ctx, js)
}

func (s *natsSession) onStore(ctx context.Context, name string, f func(ctx context.Context, store *entities.Store) error) error {
	return s.run(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		store, err := entities.Open(ctx, js, name)
		if err != nil {
			return err
		}
		return f(ctx, store)
	})
}

// checkOf returns the check of the values of a bucket by the module that reads it, nil if none of the program does.
func (s *natsSession) checkOf(bucket string) func([]byte) error {
	for _, m := range s.program.Modules {
		for _, input := range m.Inputs() {
			if input.Name == bucket {
				return input.Check
			}
		}
	}
	return nil
}
