// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/entities"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

const entityBucketExample = `  # The buckets of the server
  %s entity bucket ls

  # The buckets of the module tenants, on three servers
  %s entity bucket create tenants --replicas 3

  # Is the bucket followed, and is it accepted?
  %s entity bucket status tenants`

const entityAcceptExample = `  # Look at a bucket that was restored, and accept it
  %s entity bucket status tenants
  %s entity get tenants
  %s entity accept tenants`

func newEntityBucket(p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bucket",
		Short:   "List, create and inspect buckets",
		Long:    "List, create and inspect the key-value buckets of a NATS server.",
		Example: p.example(entityBucketExample),
		Args:    arguments.None,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBucketList(p), newBucketCreate(p), newBucketStatus(p))
	return cmd
}

func newBucketList(p Program) *cobra.Command {
	var format entityFormat
	var tables output.Tables
	var s *natsSession
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the buckets of the NATS server",
		Long: "List the buckets of the NATS server, with those of the status of entities: the number of values, with earlier values\n" +
			"of each key, their size, how many servers have them, and how many watches follow them.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example("  %s entity bucket ls"),
		Args:    arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.check(); err != nil {
				return err
			}
			return s.run(cmd.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				names, err := entities.Buckets(ctx, js, true)
				if err != nil {
					return err
				}
				var all []bucketState
				for _, name := range names {
					d, err := bucket.Describe(ctx, js, name, "")
					if err != nil {
						return err
					}
					all = append(all, newBucketState(name, d))
				}
				return printBuckets(s.terminal, format, tables, all)
			})
		},
	}
	format.bind(cmd)
	tables.Bind(cmd.Flags())
	s = p.newNATSSession(cmd)
	return cmd
}

// bucketState is the state of a bucket, as it is printed.
type bucketState struct {
	Bucket    string    `json:"bucket"`
	Values    uint64    `json:"values"`
	Bytes     uint64    `json:"bytes"`
	Revision  uint64    `json:"lastRevision"`
	History   int       `json:"history"`
	Replicas  int       `json:"replicas"`
	Expires   string    `json:"expires,omitempty"`
	Markers   string    `json:"markersOfExpiredValues,omitempty"`
	Watches   int       `json:"watches"`
	Created   time.Time `json:"created"`
	Counter   uint64    `json:"canary,omitempty"`
	Known     string    `json:"knownToTheHub,omitempty"`
	HubModule string    `json:"hub,omitempty"`
}

func newBucketState(name string, d bucket.Description) bucketState {
	s := bucketState{
		Bucket: name, Values: d.Values, Bytes: d.Bytes, Revision: uint64(d.LastRevision), History: d.History, Replicas: d.Replicas,
		Watches: d.Consumers, Created: d.Identity.Created, Counter: d.Identity.Counter,
	}
	if d.Expires > 0 {
		s.Expires = d.Expires.String()
	}
	if d.MarkerLife > 0 {
		s.Markers = d.MarkerLife.String()
	}
	return s
}

// printBuckets prints the states of buckets.
func printBuckets(t *output.Terminal, format entityFormat, tables output.Tables, all []bucketState) error {
	switch {
	case format != formatTable:
		return printData(t, format, all)
	case len(all) == 0:
		t.Text("The NATS server has no buckets.")
		return nil
	}
	table := &metav1.Table{ColumnDefinitions: columns("Bucket", "Values", "Bytes", "History", "Replicas", "Watches", "Age")}
	for _, b := range all {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			b.Bucket, fmt.Sprint(b.Values), fmt.Sprint(b.Bytes), fmt.Sprint(b.History), fmt.Sprint(b.Replicas), fmt.Sprint(b.Watches), age(b.Created),
		}})
	}
	return tables.Printer(t.Out, false).Print(table)
}

func newBucketCreate(p Program) *cobra.Command {
	var d bucket.Definition
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "create BUCKET",
		Short: "Create a bucket, and the bucket with the status of its entities",
		Long: "Create a bucket as hubs need it, and the bucket with the status of its entities, BUCKET-status. A bucket that exists\n" +
			"stays as it is. Values are kept in memory and on disk by one server, or by --replicas of a cluster of servers.\n\n" +
			natsHelp + "\n\n" + exitCodes,
		Example: p.example("  %s entity bucket create tenants --replicas 3"),
		Args:    arguments.Name("the name of a bucket"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Replicas < 1 || d.Replicas > 5 {
				return fmt.Errorf("--replicas=%d: use 1, 3 or 5", d.Replicas)
			}
			return s.run(cmd.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				for _, name := range []string{args[0], entity.StatusBucket(args[0])} {
					one := d
					if one.Name = name; name != args[0] {
						one.Expires = 0
					}
					if err := s.create(ctx, js, one); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&d.Replicas, "replicas", 1, "How many servers have the values: 1, 3 or 5")
	cmd.Flags().DurationVar(&d.Expires, "ttl", 0, "When values expire, as in 24h. Default: never")
	cmd.Flags().Int64Var(&d.MaxBytes, "max-bytes", 0, "Limit of the size of the bucket. Default: that of the account")
	s = p.newNATSSession(cmd)
	return cmd
}

// create creates a bucket, unless it exists.
func (s *natsSession) create(ctx context.Context, js jetstream.JetStream, d bucket.Definition) error {
	names, err := entities.Buckets(ctx, js, true)
	if err != nil {
		return err
	}
	if slices.Contains(names, d.Name) {
		return s.terminal.Print("bucket/%s exists", d.Name)
	}
	if err := bucket.Create(ctx, js, d); err != nil {
		return err
	}
	return s.terminal.Print("bucket/%s created", d.Name)
}

func newBucketStatus(p Program) *cobra.Command {
	var format entityFormat
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "status BUCKET",
		Short: "Show whether a bucket is the one that the hub knows, and how it is kept",
		Long: "Show a bucket as the server has it, whether it is the bucket that the hub knows, and the state of the module nats of the\n" +
			"hub. A bucket that was recreated or restored has to be accepted: until then the hub follows its entities, and\n" +
			"deletes no object because an entity is missing.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example("  %s entity bucket status tenants"),
		Args:    arguments.Name("the name of a bucket"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(); err != nil {
				return err
			}
			return s.run(cmd.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				state, err := s.stateOf(ctx, js, args[0])
				if err != nil {
					return err
				}
				return printBucket(s.terminal, format, state)
			})
		},
	}
	format.bind(cmd)
	s = p.newNATSSession(cmd)
	cmd.ValidArgsFunction = s.complete(false)
	return cmd
}

// stateOf returns the state of a bucket, with what the hub knows of it.
func (s *natsSession) stateOf(ctx context.Context, js jetstream.JetStream, name string) (bucketState, error) {
	anchor, id, err := s.anchorOf(ctx, name)
	if err != nil {
		return bucketState{}, err
	}
	d, err := bucket.Describe(ctx, js, name, id)
	if err != nil {
		return bucketState{}, err
	}
	state := newBucketState(name, d)
	known, ok, err := anchor.Load(ctx)
	switch {
	case err != nil:
		return state, err
	case !ok:
		state.Known = "no: the hub has not followed it yet"
	case d.Identity.Continues(known):
		state.Known = "yes"
	default:
		state.Known = "no: it was recreated or restored; accept it with " + s.program.name() + " entity accept " + name
	}
	reports, err := partreport.Read(ctx, anchor.Reader, s.hub.Namespace)
	if err != nil {
		return state, err
	}
	state.HubModule = reports.Summary("nats")
	for _, report := range reports.Of("nats") {
		if text := report.Of("nats").Message; text != "" {
			state.HubModule += ": " + text
			break
		}
	}
	return state, nil
}

// printBucket prints the state of one bucket.
func printBucket(t *output.Terminal, format entityFormat, state bucketState) error {
	if format != formatTable {
		return printData(t, format, state)
	}
	expires := "never"
	if state.Expires != "" {
		expires = "after " + state.Expires + ", without markers: hubs notice within a minute"
		if state.Markers != "" {
			expires = "after " + state.Expires + ", with markers that are kept for " + state.Markers
		}
	}
	for _, line := range [][2]string{
		{"Bucket", state.Bucket},
		{"Created", state.Created.Format(time.RFC3339)},
		{"Values", fmt.Sprintf("%d, with up to %d of each key; %d bytes; last revision %d", state.Values, state.History, state.Bytes, state.Revision)},
		{"Expire", expires},
		{"Replicas", fmt.Sprint(state.Replicas)},
		{"Watches", fmt.Sprint(state.Watches)},
		{"Canary", fmt.Sprint(state.Counter)},
		{"Known to the hub", state.Known},
		{"Module nats", state.HubModule},
	} {
		if line[1] == "" {
			continue
		}
		if err := t.Print("%-18s%s", line[0]+":", line[1]); err != nil {
			return err
		}
	}
	return nil
}

// anchorOf returns where the hub remembers the identity of a bucket, and the id of the hub.
func (s *natsSession) anchorOf(ctx context.Context, name string) (natshub.Anchor, string, error) {
	hub, err := s.hub.Hub()
	if err != nil {
		return natshub.Anchor{}, "", err
	}
	id, err := hub.ID(ctx)
	return natshub.Anchor{Client: hub, Reader: hub, Namespace: s.hub.Namespace, Bucket: name}, id, err
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
		Args:    arguments.Name("the name of a bucket"),
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
	cmd.ValidArgsFunction = s.complete(false)
	return cmd
}
