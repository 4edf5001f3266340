// SPDX-License-Identifier: Apache-2.0

// Package logging makes the hub's one logger and leads every other logger of the process to it.
//
// # Usage
//
//	log, err := logging.New(os.Stderr, logging.Options{})
//	logging.Route(log)
//
// New makes a logr.Logger over zap: JSON, one object a line, unless it writes to a terminal, where
// people read. Route is for the program alone: klog and controller-runtime each keep one logger for
// the whole process, so a hub inside a test must leave them as they are. FX makes fx's own events
// visible with --log-level=debug, and only then: a hub with a thousand apps has tens of thousands.
//
// # Considerations
//
// Nothing is sampled. zap's production preset drops lines of equal text above a rate, and a
// thousand clusters that become ready in one second are a thousand lines of equal text.
//
// Kubernetes objects among the values are shortened to their name: nobody wants the content of a
// Secret in a log because a call site passed the whole object.
package logging
