// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	// shellWord is a word of a command, parts of which may be in quotes.
	shellWord = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
)

// The commands on the pages exist, with their flags and their number of arguments.
func TestDocs_CommandsExist(t *testing.T) {
	t.Parallel()
	blocks, spans := 0, 0
	for page, text := range writtenPages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			if language := block[1]; language != "" && language != "sh" {
				continue
			}
			for _, words := range commandsIn(block[2]) {
				blocks++
				checkCommand(t, page, words)
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			for _, words := range commandsIn(span[1]) {
				spans++
				checkMention(t, page, words)
			}
		}
	}
	if blocks < 10 || spans < 20 {
		t.Errorf("only %d commands were found in blocks, and %d in lines: the test no longer finds them", blocks, spans)
	}
}

// Each flag that a page names without a command belongs to a command.
func TestDocs_FlagsExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	visit(stock(), func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	})
	for page, text := range writtenPages(t) {
		for _, span := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			name, isFlag := strings.CutPrefix(span[1], "--")
			name, _, _ = strings.Cut(name, "=")
			if name, _, _ = strings.Cut(name, " "); isFlag && !known[name] {
				t.Errorf("%s names --%s, which no command has", page, name)
			}
		}
	}
}

func TestCommandsIn(t *testing.T) {
	t.Parallel()
	text := "$ hub get clusters -l 'a in (b)' \\\n  -o name   # all of them\nhub install --export | kubectl apply -f -\n" +
		"kubectl get pods | hub check && hub version\nthe hub is no command\n"
	var got []string
	for _, words := range commandsIn(text) {
		got = append(got, strings.Join(words, "|"))
	}
	if want := "get|clusters|-l|a in (b)|-o|name;install|--export;check;version"; strings.Join(got, ";") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ";"), want)
	}
}

// writtenPages returns the handwritten pages by their path. The pages of docs/cli are generated from the commands.
func writtenPages(t *testing.T) map[string]string {
	t.Helper()
	root, all := filepath.Join("..", "..", "..", ".."), map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "dist" || name == "cli"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	must(t, err)
	return all
}

// commandsIn returns the arguments of each call of the hub in a block of code.
func commandsIn(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if !strings.Contains(line, "hub ") && !strings.Contains(line, "go run ") {
			continue
		}
		words := shellWord.FindAllString(line, -1)
		for i, word := range words {
			if strings.HasPrefix(word, "#") {
				words = words[:i]
				break
			}
			words[i] = strings.NewReplacer(`'`, "", `"`, "").Replace(word)
		}
		all = append(all, callsIn(words)...)
	}
	return all
}

// callsIn returns the calls of the hub in a pipeline or list of commands.
func callsIn(words []string) [][]string {
	var all [][]string
	var one []string
	for _, word := range append(words, "|") {
		switch word {
		case "|", "&&", "||", ";", ">", "&":
			if call, ok := ours(one); ok {
				all = append(all, call)
			}
			one = nil
		default:
			one = append(one, word)
		}
	}
	return all
}

// ours returns the arguments of a call of the hub, or of a hub of one's own, and false for the call of another program.
func ours(words []string) ([]string, bool) {
	if len(words) > 1 && words[0] == "hub" {
		return words[1:], true
	}
	if len(words) < 4 || words[0] != "go" || words[1] != "run" {
		return nil, false
	}
	for words = words[2:]; len(words) > 1 && strings.HasPrefix(words[0], "-"); {
		words = words[1:] // flags of go run
	}
	if program := words[0]; program == "." || program == "./cmd/hub" || program == "github.com/clusterfx/clusterfx/cmd/hub" {
		return words[1:], len(words) > 1
	}
	return nil, false
}

func checkCommand(t *testing.T, page string, words []string) {
	t.Helper()
	command, rest, err := stock().Find(words)
	if err == nil && command.HasParent() {
		if err = command.ParseFlags(rest); err == nil {
			err = command.ValidateArgs(command.Flags().Args())
		}
	}
	if err != nil || !command.Runnable() {
		t.Errorf("%s: hub %s: there is no such command: %v", page, strings.Join(words, " "), err)
	}
}

// checkMention checks a command and its flags. A command in a sentence may lack its arguments.
func checkMention(t *testing.T, page string, words []string) {
	t.Helper()
	command, rest, err := stock().Find(words)
	if err != nil {
		t.Errorf("%s: hub %s: there is no such command: %v", page, strings.Join(words, " "), err)
		return
	}
	command.InitDefaultHelpFlag()
	for _, word := range rest {
		name, isFlag := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); isFlag && command.Flag(name) == nil {
			t.Errorf("%s: hub %s: there is no flag --%s", page, strings.Join(words, " "), name)
		}
	}
}

func visit(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, child := range c.Commands() {
		visit(child, f)
	}
}
