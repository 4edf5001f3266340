// SPDX-License-Identifier: Apache-2.0

// Package clientmetrics bounds the metrics that client-go keeps of its requests. client-go counts by host, and keeps a
// series of each host that it has ever sent a request to: a hub would keep the series of every remote that was added,
// removed or moved, and a remote could add some with each status code that it invents. The registry measures each
// remote by itself, with the label "cluster".
//
// The metrics are global to the process, so this is no part of the registry: the program and tests use it.
package clientmetrics
