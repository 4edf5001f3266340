// SPDX-License-Identifier: Apache-2.0

// Package logsink has the sinks between the hub's logger and the loggers of apps: Redact and RedactSecrets keep credentials
// out of the log, QuietAfter turns the errors that the end of an app leads to into lines for debugging. They know
// loggers only, and neither apps nor remotes.
package logsink
