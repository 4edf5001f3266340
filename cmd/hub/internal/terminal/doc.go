// SPDX-License-Identifier: Apache-2.0

/*
Package terminal is how commands talk with the people who run them: progress, questions and trees.

# Usage

	t := terminal.New(os.Stdin, os.Stdout, os.Stderr)
	t.Step("creating %s", what)
	err := t.Ask(ctx, "Go on?")

Data goes to Out, everything else to Err, so that a pipe gets data only.

# Considerations

Symbols and colours are for terminals; each stream is judged for itself. Whoever sets NO_COLOR, or
TERM to dumb, gets words in their place, and so does a file or a pipe: a log stays greppable. Nothing
moves, so that nothing has to be undone on a terminal that is slow or recorded.

A question to nobody, with a pipe as the standard input, is an error and not a yes.
*/
package terminal
