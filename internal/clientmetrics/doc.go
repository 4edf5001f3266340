// SPDX-License-Identifier: Apache-2.0

// Package clientmetrics bounds the metrics of client-go, which keep a series of each host and status code forever: remotes
// come and go, and may invent codes. They are global to the process; the registry measures each remote by itself.
package clientmetrics
