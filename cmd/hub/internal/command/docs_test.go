// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
)

var update = flag.Bool("update", false, "write the pages of docs/cli")

// The pages in docs/cli are generated from the commands. Write them with go test ./cmd/hub/internal/command -run TestDocs -update.
func TestDocs_AreFresh(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "..", "docs", "cli")
	wanted := pages(t)
	if *update {
		must(t, os.RemoveAll(folder))
		must(t, os.MkdirAll(folder, 0o755))
		for name, text := range wanted {
			must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
	}
	there := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	must(t, err)
	for _, file := range files {
		text := testkit.Read(t, file)
		there[filepath.Base(file)] = text
	}
	testkit.Equal(t, wanted, there, "docs/cli is out of date: go test ./cmd/hub/internal/command -run TestDocs -update")
}

// pages returns a page for each command, by the name of its file.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := stock()
	root.DisableAutoGenTag = true
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		var page bytes.Buffer
		must(t, doc.GenMarkdownCustom(c, &page, func(link string) string { return link }))
		all[strings.ReplaceAll(c.CommandPath(), " ", "_")+".md"] = page.String()
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() && !child.IsAdditionalHelpTopicCommand() {
				visit(child)
			}
		}
	}
	visit(root)
	return all
}

func stock() *cobra.Command {
	return newRoot(Program{Args: []string{"hub"}, Stdout: io.Discard, Stderr: io.Discard, Modules: modules.All()})
}

// Every command has a short text, a long text and an example that names the program. The command down may lack them.
func TestCommands_ExplainThemselves(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for what, text := range map[string]string{"short text": c.Short, "long text": c.Long, "example": c.Example} {
			if text == "" && c.HasParent() && c.Name() != "down" {
				t.Errorf("%s has no %s", c.CommandPath(), what)
			}
		}
		if c.Example != "" && !strings.Contains(c.Example, "hub ") {
			t.Errorf("the example of %s does not name the program: %s", c.CommandPath(), c.Example)
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(stock())
}
