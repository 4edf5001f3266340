// SPDX-License-Identifier: Apache-2.0

// Package test is for tests of the manifests that need other people's programs: Helm renders the chart, and
// Prometheus evaluates alerts and reads the expressions of dashboards.
//
// It is a Go module of its own, so that none of their dependencies reaches the people who import clusterfx. The tests of
// all other manifests, which need the hub and an API server, are where "hub install" is, in cmd/hub/internal/install.
package test
