// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/entities"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const entityExample = `  # The entities of a bucket, and in how many clusters they are ready
  %s entity get tenants

  # Change one in the editor
  %s entity edit tenants acme

  # Accept a bucket that was restored from a backup
  %s entity accept tenants`

const entityGetExample = `  # The entities of a bucket
  %s entity get tenants

  # One of them, with its value and its status in each cluster
  %s entity get tenants acme -o yaml`

const entityApplyExample = `  # Create or replace an entity, whose value is in a file
  %s entity apply tenants acme -f acme.yaml

  # All entities of a file with documents, as get -o yaml prints them
  %s entity apply tenants -f tenants.yaml --dry-run
  %s entity apply tenants -f tenants.yaml

  # Only if it does not exist
  %s entity apply tenants acme -f acme.yaml --revision 0`

const entityDeleteExample = `  # Delete an entity, and so the objects that the hub has made of it
  %s entity delete tenants acme

  # Only if it has not changed since it was read
  %s entity delete tenants acme --revision 42`

// newEntity returns the command entity, with the commands below it.
func newEntity(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "entity",
		Short: "Read and write the entities of modules in NATS, and accept restored buckets",
		Long: "Read and write the entities of modules, which are values in the key-value buckets of a NATS server: the target state\n" +
			"that does not live in Kubernetes. Each write carries the revision of the value that it replaces.",
		Example: p.example(entityExample),
		Args:    arguments.None,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEntityGet(p), newEntityApply(p), newEntityEdit(p), newEntityDelete(p), newEntityWatch(p), newEntityBucket(p), newEntityAccept(p))
	return cmd
}

// bucketAndKey checks arguments that are a bucket and a key, which may be missing if it is optional.
func bucketAndKey(optional bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 || len(args) == 1 && optional {
			return nil
		}
		what := "a bucket and a key"
		if optional {
			what = "a bucket, and may have a key"
		}
		return fmt.Errorf("%s needs %s; type %s", cmd.CommandPath(), what, cmd.UseLine())
	}
}

// The output formats of commands about entities.
const (
	formatTable = "table"
	formatYAML  = output.YAML
	formatJSON  = output.JSON
)

// entityFormat is the value of the flag --output.
type entityFormat string

func (f *entityFormat) bind(cmd *cobra.Command) {
	*f = formatTable
	cmd.Flags().StringVarP((*string)(f), "output", "o", formatTable, "table, yaml or json")
	complete(cmd, "output", completeFixed(formatTable, formatYAML, formatJSON))
}

func (f *entityFormat) check() error {
	switch *f {
	case formatTable, formatYAML, formatJSON:
		return nil
	}
	return fmt.Errorf("--output=%q: use table, yaml or json", string(*f))
}

func newEntityGet(p Program) *cobra.Command {
	var format entityFormat
	var tables output.Tables
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "get BUCKET [KEY]",
		Short: "Print the entities of a bucket, or one of them",
		Long: "Print the entities of a bucket, or one of them: the key, the revision, and in how many of the clusters that it\n" +
			"concerns it is ready. The formats yaml and json have the values, and the status in each cluster.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example(entityGetExample),
		Args:    bucketAndKey(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(); err != nil {
				return err
			}
			return s.onStore(cmd.Context(), args[0], func(ctx context.Context, store *entities.Store) error {
				list, err := read(ctx, store, args[1:])
				if err != nil {
					return err
				}
				if len(args) > 1 && format == formatJSON {
					return printData(s.terminal, format, list[0])
				}
				return printEntities(s.terminal, format, tables, list)
			})
		},
	}
	format.bind(cmd)
	tables.Bind(cmd.Flags())
	s = p.newNATSSession(cmd)
	cmd.ValidArgsFunction = s.complete(true)
	return cmd
}

// read returns the entity under a key, or all without one.
func read(ctx context.Context, store *entities.Store, key []string) ([]entities.Document, error) {
	if len(key) == 0 {
		return store.List(ctx)
	}
	d, err := store.Get(ctx, key[0])
	return []entities.Document{d}, err
}

// printData prints a value for programs, in the format yaml or json.
func printData(t *output.Terminal, format entityFormat, value any) error {
	if format == formatJSON {
		encoder := json.NewEncoder(t.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	text, err := yaml.Marshal(value)
	if err == nil {
		_, err = t.Out.Write(text)
	}
	return err
}

// printEntities prints entities in a format.
func printEntities(t *output.Terminal, format entityFormat, tables output.Tables, list []entities.Document) error {
	switch {
	case format == formatYAML:
		text, err := entities.YAML(list...)
		if err != nil {
			return err
		}
		_, err = t.Out.Write(text)
		return err
	case format == formatJSON:
		return printData(t, format, list)
	case len(list) == 0:
		t.Text("The bucket has no entities.")
		return nil
	}
	return tables.Printer(t.Out, false).Print(entityTable(list))
}

// writeFlags are the flags of commands that write.
type writeFlags struct {
	revision uint64
	dryRun   bool
}

func (f *writeFlags) bind(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&f.revision, "revision", 0,
		"Revision that the entity has to have; 0 if it must not exist. Default: that of the document, or else that which is read")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "Print what would be done, and write nothing (default false)")
}

// write returns how to write.
func (f *writeFlags) write(cmd *cobra.Command) entities.Write {
	w := entities.Write{DryRun: f.dryRun}
	if cmd.Flags().Changed("revision") {
		w.Revision = &f.revision
	}
	return w
}

// done prints the result of a write.
func (f *writeFlags) done(t *output.Terminal, bucket, key string, r entities.Result) error {
	text := fmt.Sprintf("entity/%s of bucket %s %s", key, bucket, r.Done)
	switch {
	case f.dryRun:
		text += " (dry run)"
	case r.Revision > 0:
		text += fmt.Sprintf(" (revision %d)", r.Revision)
	}
	return t.Print("%s", text)
}

func newEntityApply(p Program) *cobra.Command {
	var file string
	var flags writeFlags
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "apply BUCKET [KEY] -f FILE",
		Short: "Create or replace entities",
		Long: "Create or replace entities. With KEY the file has a value, in YAML or JSON. Without it the file has documents with key\n" +
			"and value, as get -o yaml prints them; all are checked before the first is written. A document with a revision\n" +
			"replaces that revision only. A module of this program that reads the bucket checks the values.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example(entityApplyExample),
		Args:    bucketAndKey(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := ""
			if len(args) > 1 {
				key = args[1]
			}
			list, err := readDocuments(cmd, file, key)
			if err != nil {
				return err
			}
			w := flags.write(cmd)
			if w.Revision != nil && len(list) > 1 {
				return errors.New("--revision is for one entity, and the file has several: write the revision into each document")
			}
			return s.onStore(cmd.Context(), args[0], func(ctx context.Context, store *entities.Store) error {
				return applyAll(store, list, func(d entities.Document) error {
					result, err := store.Apply(ctx, d, w)
					if err != nil {
						return err
					}
					return flags.done(s.terminal, args[0], d.Key, result)
				})
			})
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "File with the value or with documents; - for the standard input")
	_ = cmd.MarkFlagRequired("filename") // It fails for unknown flags only.
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	flags.bind(cmd)
	s = p.newNATSSession(cmd)
	cmd.ValidArgsFunction = s.complete(true)
	return cmd
}

// applyAll verifies all documents, and then applies them. One that fails does not keep it from the others.
func applyAll(store *entities.Store, list []entities.Document, apply func(entities.Document) error) error {
	var problems []error
	for _, d := range list {
		problems = append(problems, store.Verify(d))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, d := range list {
		problems = append(problems, apply(d))
	}
	return errors.Join(problems...)
}

// readDocuments reads the documents in a file, or in the standard input.
func readDocuments(cmd *cobra.Command, file, key string) ([]entities.Document, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the entities: %w", err)
		}
		defer func() { _ = opened.Close() }() // It was only read.
		in = opened
	}
	list, err := entities.Parse(in, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return list, nil
}

func newEntityDelete(p Program) *cobra.Command {
	var flags writeFlags
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "delete BUCKET KEY",
		Short: "Delete an entity, and so the objects that the hub has made of it",
		Long: "Delete an entity. The hub then deletes the objects that it has made of the entity, in all clusters; in a cluster that is\n" +
			"away it does so when the cluster is back.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example(entityDeleteExample),
		Args:    bucketAndKey(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.onStore(cmd.Context(), args[0], func(ctx context.Context, store *entities.Store) error {
				result, err := store.Delete(ctx, args[1], flags.write(cmd))
				if err != nil {
					return err
				}
				return flags.done(s.terminal, args[0], args[1], result)
			})
		},
	}
	flags.bind(cmd)
	s = p.newNATSSession(cmd)
	cmd.ValidArgsFunction = s.complete(true)
	return cmd
}

func newEntityWatch(p Program) *cobra.Command {
	var format entityFormat
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "watch BUCKET [KEY]",
		Short: "Print the entities of a bucket, and their changes until Ctrl-C",
		Long: "Print the entities of a bucket, or one of them, and then each change, until Ctrl-C. The watch begins again after a loss,\n" +
			"and prints what has changed meanwhile. The formats yaml and json have the values.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example("  %s entity watch tenants\n  %s entity watch tenants acme -o json"),
		Args:    bucketAndKey(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(); err != nil {
				return err
			}
			js, err := s.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			if _, err := entities.Open(cmd.Context(), js, args[0]); err != nil {
				return err
			}
			return watchEntities(cmd.Context(), js, args, newChangePrinter(s.terminal.Out, format))
		},
	}
	format.bind(cmd)
	s = p.newNATSSession(cmd)
	cmd.ValidArgsFunction = s.complete(true)
	return cmd
}

// watchEntities prints the changes of a bucket, or of one key in it. It ends with the context, and fails if the output does.
func watchEntities(ctx context.Context, js jetstream.JetStream, args []string, p *changePrinter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := entities.Watch(ctx, js, args[0], func(d entities.Document) {
		if len(args) > 1 && d.Key != args[1] {
			return
		}
		if err := p.print(d); err != nil {
			cancel(err)
		}
	})
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errors.Join(err, ctx.Err())
}
