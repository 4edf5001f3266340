// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/entities"
)

const entityEditExample = `  # Change an entity in the editor
  %s entity edit tenants acme

  # With another editor
  EDITOR="code --wait" %s entity edit tenants acme`

func newEntityEdit(p Program) *cobra.Command {
	var flags writeFlags
	var s *natsSession
	cmd := &cobra.Command{
		Use:   "edit BUCKET KEY",
		Short: "Change an entity in an editor",
		Long: "Change the value of an entity in $VISUAL, $EDITOR or vi. A value that is not accepted is opened again, with the problem\n" +
			"at its top; an unchanged or empty file ends the command. If the entity has changed meanwhile, nothing is written and\n" +
			"the edited file stays.\n\n" + natsHelp + "\n\n" + exitCodes,
		Example: p.example(entityEditExample),
		Args:    bucketAndKey(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			var now entities.Document
			err := s.onStore(cmd.Context(), args[0], func(ctx context.Context, store *entities.Store) (err error) {
				now, err = store.Get(ctx, args[1])
				return err
			})
			if err != nil {
				return err
			}
			return s.edit(cmd, args[0], now, &flags)
		},
	}
	flags.bind(cmd)
	s = p.newNATSSession(cmd)
	cmd.ValidArgsFunction = s.complete(true)
	return cmd
}

// edit opens the editor until the value is accepted, and writes it.
func (s *natsSession) edit(cmd *cobra.Command, bucket string, now entities.Document, flags *writeFlags) error {
	before, err := yaml.JSONToYAML(now.Value)
	if err != nil {
		return fmt.Errorf("show the value of %s: %w", now.Key, err)
	}
	path, err := writeTemporary(before)
	if err != nil {
		return err
	}
	w := flags.write(cmd)
	if w.Revision == nil {
		w.Revision = &now.Revision
	}
	var problem error
	for {
		text, err := s.openEditor(cmd, path)
		if err != nil {
			return err
		}
		text = withoutProblem(text)
		switch unchanged := len(bytes.TrimSpace(text)) == 0 || bytes.Equal(text, before); {
		case unchanged && problem != nil:
			return &editError{err: problem, path: path}
		case unchanged:
			s.terminal.Text("Nothing was changed.")
			return os.Remove(path)
		}
		result, err := s.applyEdited(cmd.Context(), edited{bucket, now.Key, w}, text)
		var invalid *invalidError
		switch {
		case err == nil:
			return errors.Join(os.Remove(path), flags.done(s.terminal, bucket, now.Key, result))
		case !errors.As(err, &invalid):
			return &editError{err: err, path: path}
		}
		before, problem = text, err
		if err := os.WriteFile(path, append([]byte(problemOf(err)), text...), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
}

// writeTemporary writes a file for the editor, and returns its path.
func writeTemporary(text []byte) (string, error) {
	file, err := os.CreateTemp("", "entity-*.yaml")
	if err != nil {
		return "", fmt.Errorf("make a file for the editor: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return file.Name(), nil
}

// edited is where an edited value is written, and how.
type edited struct {
	bucket, key string
	write       entities.Write
}

// applyEdited writes an edited value. The error is an invalidError if the value is not accepted.
func (s *natsSession) applyEdited(ctx context.Context, to edited, text []byte) (entities.Result, error) {
	list, err := entities.Parse(bytes.NewReader(text), to.key)
	if err != nil {
		return entities.Result{}, &invalidError{err}
	}
	var result entities.Result
	err = s.onStore(ctx, to.bucket, func(ctx context.Context, store *entities.Store) (err error) {
		if err = store.Verify(list[0]); err != nil {
			return &invalidError{err}
		}
		result, err = store.Apply(ctx, list[0], to.write)
		return err
	})
	return result, err
}

// invalidError is the error of a value that is not accepted.
type invalidError struct{ error }

// Unwrap returns the cause.
func (e *invalidError) Unwrap() error { return e.error }

// editError is the error of an edited value that is not written.
type editError struct {
	err  error
	path string
}

// Error says where the edited value is.
func (e *editError) Error() string {
	return fmt.Sprintf("%v; the edited value is in %s", e.err, e.path)
}

// Unwrap returns the cause.
func (e *editError) Unwrap() error { return e.err }

// openEditor opens a file in the user's editor, and returns its text afterwards.
func (s *natsSession) openEditor(cmd *cobra.Command, path string) ([]byte, error) {
	editor := "vi"
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if value := os.Getenv(name); value != "" {
			editor = value
			break
		}
	}
	// The variable may have arguments, and a path in quotes.
	c := exec.CommandContext(cmd.Context(), "sh", "-c", editor+` "$1"`, "sh", path) //nolint:gosec // It is the user's own variable.
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), s.terminal.Out, os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("run the editor %s: %w; choose another one with $EDITOR", editor, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the edited file: %w", err)
	}
	return text, nil
}

// problemPrefix begins the lines with the problem of a value.
const problemPrefix = "# Problem: "

// problemOf returns a problem as comments.
func problemOf(err error) string {
	var text strings.Builder
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text.WriteString(problemPrefix + line + "\n")
	}
	return text.String()
}

// withoutProblem returns a text without the problem.
func withoutProblem(text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(problemPrefix)) {
			kept = append(kept, line...)
		}
	}
	return kept
}
