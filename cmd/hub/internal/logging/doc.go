// SPDX-License-Identifier: Apache-2.0

// Package logging makes the hub's one logger and leads every other logger of the process to it.
//
// # Usage
//
//	out := logging.NewBuffer(os.Stderr)
//	defer out.Close()
//	log, err := logging.New(out, logging.Options{})
//	logging.Route(log)
//
// New makes a logr.Logger over zap: JSON, one object a line, unless it writes to a terminal, where
// people read. Route is for the program alone: klog and controller-runtime each keep one logger for
// the whole process, so a hub inside a test must leave them as they are. FX makes fx's own events
// visible with --log-level=debug, and only then: a hub with a thousand apps has tens of thousands.
//
// # Considerations
//
// A log without a reader must not stop the hub: a pipe takes 64 KiB, and then the writer waits. So the
// program logs through a Buffer of a MiB, and as much again that is being written. Lines that do not fit are
// dropped and counted. The end of the process waits a second for the rest, also the end by a second signal. Text that is
// written to stderr directly, without the log, still waits for the reader: a message of the command line before the log exists,
// and the stack trace that Go writes when a goroutine panics. The panic of a hub whose log has no reader ends the process only when
// a reader returns; the goroutine has stopped, and heartbeats (registry/liveness) notice if it was one of the hub's.
//
// A process that is killed, or that a panic ends, loses the lines in the Buffer: up to two MiB if the reader is behind,
// and next to nothing if it is not, as each line is handed to the reader at once. The message and the stacks of the panic
// do not go through the Buffer.
//
// Nothing is sampled. zap's production preset drops lines of equal text above a rate, and a
// thousand clusters that become ready in one second are a thousand lines of equal text.
//
// Kubernetes objects among the values are shortened to their name: a log must not contain the content of
// a Secret because a call site passed the whole object.
package logging
