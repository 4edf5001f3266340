// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/internal/wire"
)

const (
	namesGenerated = "* (generated name)"
	namesAll       = "* (a collection)"
	namesUnknown   = "* (name not known)"
)

// named adds the name of a created object, which is in its body. The body stays unread.
func named(where requestinfo.Info, r *http.Request) requestinfo.Info {
	if where.Name != "" {
		return where
	}
	if r.Method != http.MethodPost {
		where.Name = namesAll
		return where
	}
	where.Name = namesUnknown
	if metadata, err := metadataIn(r); err == nil {
		switch {
		case metadata.Name != "":
			where.Name = metadata.Name
		case metadata.GenerateName != "":
			where.Name = metadata.GenerateName + namesGenerated
		}
	}
	return where
}

// maxObject is larger than any object that an API server accepts.
const maxObject = 4 << 20

func metadataIn(r *http.Request) (metav1.ObjectMeta, error) {
	if r.GetBody == nil {
		return metav1.ObjectMeta{}, io.EOF
	}
	body, err := r.GetBody()
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	defer body.Close()
	sent, err := io.ReadAll(io.LimitReader(body, maxObject))
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	var object metav1.PartialObjectMetadata
	_, err = wire.Decode(r.Header.Get("Content-Type"), sent, &object) // All kinds have their metadata in the first field.
	return object.ObjectMeta, err
}
