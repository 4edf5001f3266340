// SPDX-License-Identifier: Apache-2.0

/*
Package hubcontroller is what the controllers of the hub (cluster, registration, renewal) share: options, logger, events, and
patches that fail on a conflict. They write the same objects, so they must use one field manager and treat a stale cache alike.
*/
package hubcontroller
