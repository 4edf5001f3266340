// SPDX-License-Identifier: Apache-2.0

// Package inspect shows the state that a hub reports, one Cluster in full (Describe) and the modules of all (Modules), and
// changes the state of Clusters (Change). kubectl lists Clusters, in the columns of the CRD.
package inspect
