// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
