// SPDX-License-Identifier: Apache-2.0

/*
Package redact replaces the hub's own credential in texts. A Pod's credential is rotated in a file without notice, so
it is read again while texts are redacted. Those of remotes are in kubeconfig.Redactor; loggers are in logsink.
*/
package redact
