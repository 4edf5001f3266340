// SPDX-License-Identifier: Apache-2.0

package faults_test

// asHub makes the test binary a hub, whose process can lack what this one has.
const asHub = "CLUSTERFX_TEST_FAULTS_AS_HUB"

func mainOfHub() int { return 1 }
