// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A hub does not start with a feature of client-go with which its apps do not work, and the error says what to unset.
func TestOptions_NoCBOR(t *testing.T) { //nolint:paralleltest // The features are those of the process.
	for _, one := range []features.Feature{features.ClientsAllowCBOR, features.ClientsPreferCBOR} {
		t.Run(string(one), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, one, true)
			_, err := Options{Config: &rest.Config{}, Alone: true}.withDefaults()
			testkit.ErrorHas(t, err, "unset the environment variable KUBE_FEATURE_"+string(one))
		})
	}
	if _, err := (Options{Config: &rest.Config{}, Alone: true}).withDefaults(); err != nil {
		t.Errorf("without the features: got error %v", err)
	}
}
