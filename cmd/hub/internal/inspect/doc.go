// SPDX-License-Identifier: Apache-2.0

// Package inspect shows the state that a hub reports: one Cluster in full (Describe), the modules of all (Modules) and the holds of
// deletes (Deletes), whose deletes it allows. It changes the state of Clusters (Change). kubectl lists Clusters, in the columns of the CRD.
package inspect
