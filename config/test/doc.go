// SPDX-License-Identifier: Apache-2.0

// Package test has the tests of the manifests that need third-party programs: Helm renders the chart, and Prometheus
// evaluates alerts and reads the expressions of dashboards.
//
// It is a separate Go module, so that none of their dependencies reaches importers of clusterfx. The tests of all other
// manifests, which need the hub and an API server, are beside "hub install", in cmd/hub/internal/install.
package test
