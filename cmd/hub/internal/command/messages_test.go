// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/diagnose"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// defaults matches default messages of cobra, pflag and strconv.
var defaults = regexp.MustCompile(`arg\(s\)|unknown command|unknown flag|unknown shorthand|needs an argument|invalid argument|` +
	`bad flag syntax|strconv|time: (invalid|missing|unknown)|in the group|must be formatted`)

// advice matches the end of every error about arguments and flags.
var advice = regexp.MustCompile(`; type hub |--help|: use |as in --|^say which|one thing is checked at a time|: write |write it as|names go without`)

// The errors of every command for wrong arguments and flags have advice.
func TestMessages_OfArgumentsAndFlags(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for what, err := range mistakes(c) {
			if err != nil && (defaults.MatchString(err.Error()) || !advice.MatchString(err.Error())) {
				t.Errorf("%s, %s: %q has no advice", c.CommandPath(), what, err)
			}
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(stock())
}

// mistakes returns the errors of a command for wrong arguments and flags.
func mistakes(c *cobra.Command) map[string]error {
	c.InitDefaultHelpFlag()
	explain := func(args ...string) error { return c.FlagErrorFunc()(c, c.ParseFlags(args)) }
	all := map[string]error{
		"no arguments": c.ValidateArgs(nil), "three arguments": c.ValidateArgs([]string{"a", "b", "c"}),
		"a flag that is not there": explain("--nonsense"), "a letter that is no flag": explain("-Z"), "a flag without a name": explain("--=x"),
	}
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		switch flag.Value.Type() {
		case "int", "int32", "int64", "bool", "duration", "stringToString":
			all[flag.Name] = explain("--" + flag.Name + "=nonsense")
		}
		if flag.NoOptDefVal == "" {
			all[flag.Name+" without a value"] = explain("--" + flag.Name)
		}
	})
	return all
}

// The errors of the program suggest a command for an unknown command, name missing arguments, and reject flags that exclude each other.
func TestMessages_OfTheProgram(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	for line, want := range map[string]string{
		"regsiter edge":                   `hub has no command "regsiter"; did you mean register? hub --help lists the commands`,
		"dev dwon":                        `hub dev has no command "dwon"; did you mean down? hub dev --help lists the commands`,
		"nonsense":                        `hub has no command "nonsense"; hub --help lists the commands`,
		"rotate":                          "hub rotate needs the name of the Cluster; type hub rotate NAME --cluster-context CONTEXT [flags]",
		"rotate a b c":                    `takes one argument, the name of the Cluster, and got "a", "b", "c"`,
		"deregister":                      "hub deregister needs the name of the Cluster; type hub deregister NAME",
		"register":                        "hub register needs a name for the Cluster; type hub register NAME --cluster-context CONTEXT",
		"register a b":                    `takes one argument, a name for the Cluster, and got "a", "b"`,
		"describe":                        "hub describe needs the name of a Cluster; type hub describe NAME...",
		"graph a b c":                     `takes one argument, the name of a Cluster, and got "a", "b", "c"`,
		"run now":                         `hub run takes no arguments, and got "now"; see hub run --help`,
		"run --concurrency=many":          `--concurrency="many": use a whole number`,
		"run --remove-timeout=5":          `--remove-timeout="5": use a time with its unit, such as 30s, 5m or 1h`,
		"run --concurency=1":              "hub run has no flag --concurency; hub run --help lists the flags",
		"run --concurrency":               "--concurrency needs a value, as in --concurrency=VALUE",
		"register a -Q":                   "hub register has no flag -Q; hub register --help",
		"register a -l x":                 "use pairs of a key and a value, such as region=eu,tier=edge",
		"dev --detach --verbose":          "leave one of them out",
		"dev --detach --exit-after-ready": "leave one of them out",
		"check a b":                       `takes one argument, NAME or secret/NAME, and got "a", "b"`,
		"check a --cluster-context=b":     "one thing is checked at a time",
		"install --replicas=99999999999999999999": "use a smaller number",
	} {
		var out bytes.Buffer
		code := Execute(t.Context(), Program{
			Args: append([]string{"hub"}, strings.Fields(line)...), Stdout: &out, Stderr: &out, Modules: modules.All(),
		})
		if got := out.String(); code != 1 || !strings.Contains(got, want) || defaults.MatchString(got) {
			t.Errorf("hub %s prints %q (exit status %d), want %q", line, got, code, want)
		}
	}
}

// check prints a finding and its advice as one sentence, even if the finding is a sentence of its own.
func TestMessages_OfCheck(t *testing.T) {
	var report diagnose.Report
	for _, err := range []error{
		&kubeconfig.StatusError{Code: http.StatusInternalServerError}, &kubeconfig.StatusError{Code: http.StatusUnauthorized},
		kubeconfig.ErrNotKubernetes, context.DeadlineExceeded, errors.New("anything"),
	} {
		_, message := kubeconfig.Classify(err)
		report = append(report, diagnose.Finding{Level: diagnose.Failure, Check: "health", Text: message, Advice: "see the server's log"})
	}
	var out bytes.Buffer
	must(t, report.Print(output.NewTerminal(strings.NewReader(""), &out, &out)))
	if got := out.String(); strings.Contains(got, ".;") || strings.Count(got, "; see the server's log\n") != len(report) {
		t.Errorf("check prints\n%s", got)
	}
}

// Without a kubeconfig the program advises to run "hub dev". For an address that the hub does not dial, the error names
// --cluster-server.
func TestMessages_WithoutCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, line := range []string{"run", "check", "get modules", "install", "register a --cluster-context=b"} {
		var out bytes.Buffer
		code := Execute(t.Context(), Program{
			Args: append([]string{"hub"}, strings.Fields(line)...), Stdout: &out, Stderr: &out, Modules: modules.All(), Stock: true,
		})
		got := out.String()
		if code != 1 || !strings.Contains(got, "there is no kubeconfig") || !strings.Contains(got, `run "hub dev"`) || strings.Contains(got, "KUBERNETES_MASTER") {
			t.Errorf("hub %s prints %q (exit status %d)", line, got, code)
		}
	}
	testkit.ErrorHas(t, (kubeconfig.Policy{}).CheckAddr(netip.MustParseAddr("127.0.0.1")), "--cluster-server", "the error for a refused address")
}

// Only the commands that ask for a confirmation have the flag --yes. Only the help text of rotate says that it does not ask.
func TestMessages_OfQuestions(t *testing.T) {
	t.Parallel()
	for _, c := range stock().Commands() {
		asks := c.Name() == "install" || c.Name() == "register" || c.Name() == "deregister"
		if has := c.Flags().Lookup("yes") != nil; has != asks {
			t.Errorf("%s has the flag --yes: %t, want %t", c.CommandPath(), has, asks)
		}
		if (c.Name() == "rotate") != strings.Contains(c.Long, "does not ask") {
			t.Errorf("%s: the help text must say that rotate, and only rotate, does not ask:\n%s", c.CommandPath(), c.Long)
		}
	}
}

// repositoryPath matches a path in the repository that is not part of a URL.
var repositoryPath = regexp.MustCompile(`(^|[^\w/.-])(docs|config)/[a-z-]+`)

// No string literal and no template names a path in the repository, because users of the published module have no checkout.
func TestMessages_NameNoPathsOfTheRepository(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../../..")
	for _, folder := range []string{"cmd/hub", "registry", "reconcilers", "modules", "api", "hubtest"} {
		err := fs.WalkDir(root, folder, func(path string, entry fs.DirEntry, err error) error {
			generated := strings.Contains(path, "/templates/")
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || !generated && !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			for _, found := range texts(t, text, generated) {
				if bad := repositoryPath.FindString(found); bad != "" {
					t.Errorf("%s: %q in %s", path, bad, found)
				}
			}
			return nil
		})
		must(t, err)
	}
}

// texts returns the whole text of a template, and the string literals of a Go file except import paths.
func texts(t *testing.T, text []byte, whole bool) []string {
	t.Helper()
	if whole {
		return []string{string(text)}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	must(t, err)
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			all = append(all, literal.Value)
		}
		_, isImport := n.(*ast.ImportSpec)
		return !isImport
	})
	return all
}
