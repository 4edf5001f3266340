// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image writes the images for linux as one OCI layout, in a .tar. Other platforms run in no container.
func (r *release) image(binaries []binary) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	count := 0
	for _, b := range binaries {
		if b.platform.system != "linux" {
			continue
		}
		one, err := r.imageOf(b)
		if err != nil {
			return err
		}
		target := &v1.Platform{OS: b.platform.system, Architecture: b.platform.processor}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: target}})
		count++
	}
	if count == 0 {
		r.say("no image: -platforms has none for linux")
		return nil
	}
	dir := filepath.Join(r.temp, "image")
	files, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := files.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          image + ":" + r.version,
	})); err != nil {
		return err
	}
	return packDir(r.file("hub_"+r.version+"_image.tar"), dir, r.time)
}

// imageOf is the binary and what it needs, as a user without a name.
func (r *release) imageOf(b binary) (v1.Image, error) {
	data, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(r.repository, license))
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	entries := []entry{{license, text, 0o644}, {"etc/ssl/certs/ca-certificates.crt", authorities(), 0o644}, {"hub", data, 0o755}}
	if err := pack(&files, entries, r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	one, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"},
	})
	if err != nil {
		return nil, err
	}
	config, err := one.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.platform.system, b.platform.processor, v1.Time{Time: r.time}
	config.Config = v1.Config{
		// The number and not the name, so that Kubernetes can see that it is not root.
		User:         "65532:65532",
		Entrypoint:   []string{"/hub"},
		Cmd:          []string{"run"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.source":   "https://" + mainModule,
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(one, config)
}

// authorities are those of Mozilla that are trusted without a condition, since a file of certificates can state none.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // A buffer takes everything.
		}
	}
	return out.Bytes()
}
