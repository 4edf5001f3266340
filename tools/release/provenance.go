// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	provenanceFile = "provenance.intoto.json"
	statementKind  = "application/vnd.in-toto+json"
	predicateKind  = "https://slsa.dev/provenance/v1"
	buildKind      = "https://" + mainModule + "/tree/main/tools/release"
)

// provenance states, signed, from what and how the files were made.
func (r *release) provenance(ctx context.Context) error {
	digests, err := digestsOf(r.dir)
	if err != nil {
		return err
	}
	how, err := r.predicate()
	if err != nil {
		return err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateKind, Predicate: how}
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": digests[name]}})
	}
	if err := statement.Validate(); err != nil {
		return err
	}
	data, err := stable(statement)
	if err != nil {
		return err
	}
	return r.sign(ctx, provenanceFile, statementKind, data)
}

func (r *release) predicate() (*structpb.Struct, error) {
	var platforms []any
	for _, p := range r.platforms {
		platforms = append(platforms, p.String())
	}
	external, err := structpb.NewStruct(map[string]any{"version": r.version, "platforms": platforms})
	if err != nil {
		return nil, err
	}
	internal, err := structpb.NewStruct(map[string]any{"go": r.goVersion})
	if err != nil {
		return nil, err
	}
	how := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: buildKind, ExternalParameters: external, InternalParameters: internal,
			ResolvedDependencies: []*intoto.ResourceDescriptor{{
				Uri:    "git+https://" + mainModule + "@refs/tags/" + r.version,
				Digest: map[string]string{"gitCommit": r.commit},
			}},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: buildKind}},
	}
	data, err := protojson.Marshal(how)
	if err != nil {
		return nil, err
	}
	predicate := &structpb.Struct{}
	return predicate, protojson.Unmarshal(data, predicate)
}

// stable is JSON with sorted keys: protojson puts spaces where it likes.
func stable(message proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
