// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// stateFile finds the fleet again. Process ids are in the lock files, which a process writes first.
const stateFile = "fleet.json"

type state struct {
	Options  Options  `json:"options"`
	Clusters []record `json:"clusters"`
}

type record struct {
	Name    string   `json:"name"`
	Port    int      `json:"port"`
	Kind    string   `json:"kind,omitempty"`
	Version string   `json:"version,omitempty"`
	Flags   []string `json:"flags,omitempty"`
}

// Open returns a fleet that another process left behind with Options.Detached; its log goes to w, which may be nil.
// Programs that died can be restarted, except etcd.
func Open(dir string, w io.Writer) (*Fleet, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := readState(dir)
	if err != nil {
		return nil, fmt.Errorf("open the fleet in %s: %w", dir, err)
	}
	if !s.Options.Detached {
		return nil, fmt.Errorf("open the fleet in %s: it was not detached", dir)
	}
	s.Options.Dir, s.Options.Log = dir, newLog(w)
	f := newFleet(s.Options, &home{path: dir})
	if err := f.adopt(s.Clusters); err != nil {
		return nil, fmt.Errorf("open the fleet in %s: %w", dir, err)
	}
	return f, nil
}

func readState(dir string) (state, error) {
	var s state
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", stateFile, err)
	}
	return s, nil
}

func (f *Fleet) adopt(records []record) error {
	var err error
	if f.options.Provider == Kind {
		f.provider = openKind(f.options)
	} else {
		f.provider, err = openProcesses(f.options)
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		if f.clusters[r.Name], err = f.provider.adopt(r); err != nil {
			return fmt.Errorf("find cluster %s: %w", r.Name, err)
		}
	}
	return nil
}

func (f *Fleet) save() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saveLocked()
}

// saveLocked writes all or nothing.
func (f *Fleet) saveLocked() error {
	s := state{Options: f.options}
	for _, c := range f.clusters {
		if c != nil {
			s.Clusters = append(s.Clusters, c.record)
		}
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(f.home.path, stateFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
