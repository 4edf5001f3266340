// SPDX-License-Identifier: Apache-2.0

// Package quota is the module quota. Its remote part gives every Namespace
// with the label team a ResourceQuota, in every remote. Its hub part watches these in all remotes at once
// and keeps the number of each remote's in a ConfigMap in the hub.
package quota
