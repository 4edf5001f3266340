// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

const entityBucketExample = `  # The buckets of the module tenants, on three servers
  %s entity bucket create tenants --replicas 3

  # Is the bucket followed, and is it accepted?
  %s entity bucket status tenants`

func newEntityBucket(p Program) *cobra.Command {
	return group(&cobra.Command{
		Use:     "bucket",
		Short:   "Create and inspect buckets",
		Long:    "Create and inspect the key-value buckets of a NATS server. The command nats kv ls of the NATS project lists them.",
		Example: p.example(entityBucketExample),
	}, newBucketCreate(p), newBucketStatus(p))
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
		Args:    output.OneName("the name of a bucket"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Replicas < 1 || d.Replicas > 5 {
				return fmt.Errorf("--replicas=%d: use 1, 3 or 5", d.Replicas)
			}
			return s.run(cmd.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				values, status := d, d
				values.Name, status.Name, status.Expires = args[0], entity.StatusBucket(args[0]), 0
				if err := s.create(ctx, js, values); err != nil {
					return err
				}
				return s.create(ctx, js, status)
			})
		},
	}
	cmd.Flags().IntVar(&d.Replicas, "replicas", 1, "How many servers have the values: 1, 3 or 5")
	cmd.Flags().DurationVar(&d.Expires, "ttl", 0, "When values expire, as in 24h. Default: never")
	cmd.Flags().Int64Var(&d.MaxBytes, "max-bytes", 0, "Limit of the size of the bucket. Default: that of the account")
	s = p.newNATSSession(cmd)
	return cmd
}

func (s *natsSession) create(ctx context.Context, js jetstream.JetStream, d bucket.Definition) error {
	if _, err := js.KeyValue(ctx, d.Name); err == nil {
		return s.terminal.Print("bucket/%s exists", d.Name)
	}
	if err := bucket.Create(ctx, js, d); err != nil {
		return err
	}
	return s.terminal.Print("bucket/%s created", d.Name)
}

func newBucketStatus(p Program) *cobra.Command {
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "status BUCKET",
		Short: "Show whether a bucket is the one that the hub knows, and how it is kept",
		Long: "Show a bucket as the server has it, whether it is the bucket that the hub knows, and the state of the module nats of the\n" +
			"hub. A bucket that was recreated or restored has to be accepted: until then the hub follows its entities, and\n" +
			"deletes no object because an entity is missing.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example("  %s entity bucket status tenants"),
		Args:    output.OneName("the name of a bucket"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				return s.printBucket(ctx, js, args[0])
			})
		},
	}
	s = p.newNATSSession(cmd)
	return cmd
}

func (s *natsSession) printBucket(ctx context.Context, js jetstream.JetStream, name string) error {
	anchor, id, err := s.anchorOf(ctx, name)
	if err != nil {
		return err
	}
	d, err := bucket.Describe(ctx, js, name, id)
	if err != nil {
		return err
	}
	known, ok, errLoad := anchor.Load(ctx)
	reports, errRead := partreport.Read(ctx, anchor.Reader, s.hub.Namespace)
	if err := errors.Join(errLoad, errRead); err != nil {
		return err
	}
	answer := "yes"
	module, message := inspect.HubPart("nats", reports)
	if message != "" {
		module += ": " + message
	}
	switch {
	case !ok:
		answer = "no: the hub has not followed it yet"
	case !d.Identity.Continues(known):
		answer = "no: it was recreated or restored; accept it with " + s.program.name() + " entity accept " + name
	}
	for _, line := range [][2]string{
		{"Bucket", name},
		{"Created", d.Identity.Created.Format(time.RFC3339)},
		{"Values", fmt.Sprintf("%d, with up to %d of each key; %d bytes; last revision %d", d.Values, d.History, d.Bytes, d.LastRevision)},
		{"Expire", expiry(d)},
		{"Replicas", fmt.Sprint(d.Replicas)},
		{"Watches", fmt.Sprint(d.Consumers)},
		{"Canary", fmt.Sprint(d.Identity.Counter)},
		{"Known to the hub", answer},
		{"Module nats", module},
	} {
		if line[1] == "" {
			continue
		}
		if err := s.terminal.Print("%-18s%s", line[0]+":", line[1]); err != nil {
			return err
		}
	}
	return nil
}

func expiry(d bucket.Description) string {
	switch {
	case d.Expires == 0:
		return "never"
	case d.MarkerLife == 0:
		return fmt.Sprintf("after %s, without markers: hubs notice within a minute", d.Expires)
	}
	return fmt.Sprintf("after %s, with markers that are kept for %s", d.Expires, d.MarkerLife)
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
