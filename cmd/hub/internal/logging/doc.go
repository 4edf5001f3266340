// SPDX-License-Identifier: Apache-2.0

/*
Package logging makes the hub's one logger and leads every other logger of the process to it.

	out := logging.NewBuffer(os.Stderr)
	defer out.Close()
	log, err := logging.New(out, logging.Options{})
	logging.Route(log)

New is a logr.Logger over zap: JSON lines, or text on a terminal. Route is for the program alone, since klog and
controller-runtime have one logger per process. FX shows fx's events for debugging only: a thousand apps have tens of
thousands.

A log without a reader must not stop the hub: a pipe takes 64 KiB. So a Buffer holds a MiB, and as much on its way,
drops and counts the rest, and delays the end by a second at most. What is written to stderr directly still waits for
the reader, as does the stack trace of a panic. A killed process loses the lines in the Buffer. Nothing is sampled: a
thousand ready clusters are a thousand lines of equal text. Kubernetes objects are shortened to their names, so that
no Secret's content gets into a log.
*/
package logging
