// SPDX-License-Identifier: Apache-2.0

/*
Package hubcontroller contains the parts that the controllers of the hub itself share: the options and the logger of a
controller, the field manager, patches of Clusters that fail on a conflict, and events.

The controllers are in the packages cluster and registration. They write the same objects, so they must use the same
field manager, and must treat a stale cache alike.
*/
package hubcontroller
