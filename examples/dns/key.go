// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// secret is where a TSIG key is. It is read each time, so that a new key is used at once, and kept nowhere.
type secret struct {
	live  client.Reader
	name  client.ObjectKey
	entry string
}

// read returns the key in base64. No error contains any of it.
func (s secret) read(ctx context.Context) (string, error) {
	var found corev1.Secret
	if err := s.live.Get(ctx, s.name, &found); err != nil {
		if apierrors.IsNotFound(err) {
			return "", s.unusable("is not there; create it", err)
		}
		return "", fmt.Errorf("read the TSIG key: %w", err)
	}
	key := strings.TrimSpace(string(found.Data[s.entry]))
	if key == "" {
		return "", s.unusable(fmt.Sprintf("has no entry %s; put the key there, in base64", s.entry), nil)
	}
	if _, err := base64.StdEncoding.DecodeString(key); err != nil {
		return "", s.unusable(fmt.Sprintf("has an entry %s that is not base64; write it as tsig-keygen prints it", s.entry),
			errors.New("no base64"))
	}
	return key, nil
}

func (s secret) unusable(why string, err error) error {
	return &pipeline.ReasonError{Reason: ReasonKeyNotUsable, Message: fmt.Sprintf("Secret %s %s", s.name.Name, why), Err: err}
}
