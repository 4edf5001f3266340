// SPDX-License-Identifier: Apache-2.0

/*
Package logsink has sinks between the hub's logger and those of apps: RedactSecrets keeps credentials out of the log, QuietAfter
turns errors that follow from the end of an app into lines for debugging.
*/
package logsink
