// SPDX-License-Identifier: Apache-2.0

/*
Package entities tests controllers of entities as processes that end before each of their writes, with a server of three
that is killed, and networks that are cut. A process is this test program again, with a controller that makes a
ConfigMap of each entity. These tests do not run with -short.
*/
package entities
