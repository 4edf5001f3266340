// SPDX-License-Identifier: Apache-2.0

package deletes_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/deletes"
)

// The deletes of objects that belong to a parent which is being deleted are declared, and are not limited.
func ExampleOnPurpose() {
	now := metav1.Now()
	parent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "bundle", DeletionTimestamp: &now}}

	ctx := deletes.OnPurpose(context.Background(), deletes.Terminating(parent))
	// remote.Client.Delete(ctx, ...)

	evidence, declared := deletes.EvidenceOf(ctx)
	fmt.Println(declared, evidence.Kind, evidence.Err)
	// Output: true terminating <nil>
}
