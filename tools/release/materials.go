// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// materials writes the list of modules that a binary consists of, as CycloneDX.
func (r *release) materials(b binary) (err error) {
	generator, err := bin.NewGenerator(b.path, bin.WithIncludeStdlib(true), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	list, err := generator.Generate()
	if err != nil {
		return err
	}
	list.Metadata.Timestamp = r.time.Format(time.RFC3339)
	out, err := os.Create(r.file(r.name(b) + ".cdx.json"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(list)
}
