// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// None checks the arguments of a command that takes none.
func None(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		return unknown(cmd, args[0])
	}
	return fmt.Errorf("%s takes no arguments, and got %s; see %s --help for its flags", cmd.CommandPath(), list(args), cmd.CommandPath())
}

// OneName checks the arguments of a command that takes one argument, which the parameter what describes.
func OneName(what string) cobra.PositionalArgs {
	return cobra.MatchAll(OneAtMost(what), Some(what))
}

// OneAtMost checks the arguments of a command that takes one argument or none.
func OneAtMost(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes one argument, %s, and got %s; type %s", cmd.CommandPath(), what, list(args), cmd.UseLine())
		}
		return nil
	}
}

// Some checks the arguments of a command that takes one or more, which the command itself looks at.
func Some(what string) cobra.PositionalArgs { return Between(1, math.MaxInt, what) }

// Between checks the number of arguments, which the parameter what describes.
func Between(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s needs %s; type %s", cmd.CommandPath(), what, cmd.UseLine())
		}
		return nil
	}
}

// ExplainCommand returns the error of a run with args. If they name no command, it says which they may mean.
func ExplainCommand(root *cobra.Command, args []string, err error) error {
	found, rest, problem := root.Find(args)
	if err == nil || problem == nil || len(rest) == 0 {
		return err
	}
	return unknown(found, rest[0])
}

func unknown(cmd *cobra.Command, name string) error {
	meant := ";"
	if names := suggestions(cmd, name); len(names) > 0 {
		meant = "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Errorf("%s has no command %q%s %s --help lists the commands", cmd.CommandPath(), name, meant, cmd.CommandPath())
}

func suggestions(cmd *cobra.Command, name string) []string {
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2 // the default of cobra
	}
	return cmd.SuggestionsFor(name)
}

func list(args []string) string {
	var quoted []string
	for _, arg := range args {
		quoted = append(quoted, fmt.Sprintf("%q", arg))
	}
	return strings.Join(quoted, ", ")
}

// ExplainFlag adds advice to an error of pflag. It is for cobra's SetFlagErrorFunc.
func ExplainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var malformed *pflag.InvalidSyntaxError
	help := cmd.CommandPath() + " --help"
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		flag := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			flag = "-" + unknown.GetSpecifiedName()
		}
		return fmt.Errorf("%s has no flag %s; %s lists the flags", cmd.CommandPath(), flag, help)
	case errors.As(err, &missing):
		name := missing.GetFlag().Name
		return fmt.Errorf("--%s needs a value, as in --%s=VALUE; see %s", name, name, help)
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s=%q: %w", invalid.GetFlag().Name, invalid.GetValue(), ExplainValue(invalid.GetFlag(), invalid.Unwrap()))
	case errors.As(err, &malformed):
		return fmt.Errorf("%q is not a flag: write it as --NAME=VALUE; %s lists the flags", malformed.GetSpecifiedFlag(), help)
	}
	return fmt.Errorf("%w; see %s", err, help)
}

// ExplainValue returns the syntax of the value of a flag, for the error of its Set.
func ExplainValue(flag *pflag.Flag, err error) error {
	switch flag.Value.Type() {
	case "int", "int32", "int64":
		if errors.Is(err, strconv.ErrRange) {
			return errors.New("use a smaller number")
		}
		return errors.New("use a whole number")
	case "bool":
		return errors.New("use true or false")
	case "duration":
		return errors.New("use a time with its unit, such as 30s, 5m or 1h")
	case "stringToString":
		return errors.New("use pairs of a key and a value, such as region=eu,tier=edge")
	}
	return err
}

// OneOf returns the value of a flag that takes one of some words, and at first has that of to.
func OneOf[T ~string](to *T, words ...T) pflag.Value { return &choice[T]{to, *to, words} }

// WordsOf returns the words that a flag of OneOf takes, and none for another one.
func WordsOf(flag *pflag.Flag) []string {
	if c, ok := flag.Value.(interface{ all() []string }); ok {
		return c.all()
	}
	return nil
}

type choice[T ~string] struct {
	to    *T
	usual T
	words []T
}

func (c *choice[T]) Set(word string) error {
	if T(word) != c.usual && !slices.Contains(c.words, T(word)) {
		all := c.all()
		last := len(all) - 1
		return fmt.Errorf("use %s or %s", strings.Join(all[:last], ", "), all[last])
	}
	*c.to = T(word)
	return nil
}

func (c *choice[T]) String() string { return string(*c.to) }

func (*choice[T]) Type() string { return "string" }

func (c *choice[T]) all() (all []string) {
	for _, one := range c.words {
		all = append(all, string(one))
	}
	return all
}
