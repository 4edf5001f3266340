// SPDX-License-Identifier: Apache-2.0

/*
Package versions runs the stock hub, as a program, with other versions: with each version of Kubernetes that has been built
(make controlplane KUBERNETES=all, make test-versions), with an API server that emulates an older one (in make test), and beside
the last release (make test-upgrade).
*/
package versions
