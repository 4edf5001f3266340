// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	data []byte
	mode int64
}

// pack writes files and the folders above them, with one time and no owner.
func pack(w io.Writer, entries []entry, at time.Time) error {
	archive := tar.NewWriter(w)
	made := map[string]bool{}
	for _, e := range entries {
		for i, c := range e.name {
			dir := e.name[:i] + "/"
			if c != '/' || made[dir] {
				continue
			}
			made[dir] = true
			if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}); err != nil {
				return err
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(e.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// packFile writes a .tar.gz without a name or a time of its own.
func packFile(file string, entries []entry, at time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(pack(zip, entries, at), zip.Close())
}

const license = "LICENSE"

// archive packs a binary with the license.
func (r *release) archive(b binary) error {
	data, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.repository, license))
	if err != nil {
		return err
	}
	return packFile(r.file(r.name(b)+".tar.gz"), []entry{{license, text, 0o644}, {"hub", data, 0o755}}, r.time)
}

// name is the beginning of the names of a binary's files.
func (r *release) name(b binary) string {
	return fmt.Sprintf("hub_%s_%s_%s", r.version, b.platform.system, b.platform.processor)
}

// chart packs what git knows of the chart.
func (r *release) chart(ctx context.Context) error {
	names, err := r.git(ctx, "ls-files", "-z", "--", chartDir)
	if err != nil {
		return err
	}
	var entries []entry
	for name := range strings.SplitSeq(strings.Trim(names, "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(r.repository, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		entries = append(entries, entry{path.Join("clusterfx", strings.TrimPrefix(name, chartDir)), data, 0o644})
	}
	return packFile(r.file("clusterfx-"+strings.TrimPrefix(r.version, "v")+".tgz"), entries, r.time)
}

// packDir writes a folder as a .tar.
func packDir(file, dir string, at time.Time) error {
	var entries []entry
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		entries = append(entries, entry{filepath.ToSlash(relative), data, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := pack(&out, entries, at); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
