// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

type mutant struct {
	list string // the file that it is in, without its ending

	Breaks string `json:"breaks"`
	// File is a path in the module.
	File string `json:"file"`
	// Before occurs exactly once. After takes its place.
	Before string `json:"before"`
	After  string `json:"after"`
	// Tests of Package with a name like Run must fail.
	Package string `json:"package"`
	Run     string `json:"run"`
}

// isSlow: its test does not run with -short.
func (m *mutant) isSlow() bool { return m.list == "slow" }

func (m *mutant) String() string { return m.list + ": " + m.Breaks }

//go:embed lists/*.yaml
var lists embed.FS

func readLists() ([]mutant, error) {
	entries, err := lists.ReadDir("lists")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, entry := range entries {
		text, err := lists.ReadFile("lists/" + entry.Name())
		if err != nil {
			return nil, err
		}
		var list []mutant
		if err := yaml.UnmarshalStrict(text, &list); err != nil {
			return nil, fmt.Errorf("read %s: %w", entry.Name(), err)
		}
		for i := range list {
			list[i].list = strings.TrimSuffix(entry.Name(), ".yaml")
		}
		all = append(all, list...)
	}
	return all, nil
}

// choose goes by names of lists, and words in Breaks.
func choose(all []mutant, words []string) []mutant {
	if len(words) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m mutant) bool {
		return !slices.ContainsFunc(words, func(word string) bool {
			return m.list == word || strings.Contains(m.Breaks, word)
		})
	})
}

func (m *mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if m.Before == "" || m.Before == m.After {
		return nil, errors.New("it changes nothing")
	}
	if n := strings.Count(string(text), m.Before); n != 1 {
		return nil, fmt.Errorf("%s has %d times, and not once, the text\n%s", m.File, n, m.Before)
	}
	return []byte(strings.Replace(string(text), m.Before, m.After, 1)), nil
}
