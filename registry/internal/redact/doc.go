// SPDX-License-Identifier: Apache-2.0

/*
Package redact knows the credential of the hub in its own cluster, and replaces it in texts. The credential belongs to no
remote, and unlike the credential of a remote it comes from no Secret: the credential of a Pod is rotated in a file
without notice. So the package reads the file again while texts are redacted.

The credentials of remotes are in the connections that use them and in the kubeconfig.Redactor. The loggers that replace
credentials are in the package logsink.
*/
package redact
