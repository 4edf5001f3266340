// SPDX-License-Identifier: Apache-2.0

/*
Package hubcontroller holds what the controllers of the hub itself have in common: the options and the logger of a
controller, the field manager, patches of Clusters that fail on a conflict, and events.

The controllers are those of the packages cluster and registration. They write the same objects, so they must use the
same field manager, and must treat a stale cache alike.
*/
package hubcontroller
