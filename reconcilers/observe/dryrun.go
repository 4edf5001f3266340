// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/internal/wire"
)

// dryRun: if a deletion has options in its body, the API server ignores those in its query.
func dryRun(r *http.Request) (*http.Request, error) {
	dry := r.Clone(r.Context())
	query := dry.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	dry.URL.RawQuery = query.Encode()
	if r.Method != http.MethodDelete || r.Body == nil {
		return dry, nil
	}
	sent, err := io.ReadAll(io.LimitReader(r.Body, maxDeleteOptions))
	r.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the options of the deletion: %w", err)
	}
	body, err := dryOptions(sent, r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	dry.Header.Set("Content-Type", runtime.ContentTypeJSON)
	dry.ContentLength = int64(len(body))
	dry.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	dry.Body, err = dry.GetBody()
	return dry, err
}

// maxDeleteOptions is larger than the options of any deletion.
const maxDeleteOptions = 64 << 10

func dryOptions(sent []byte, contentType string) ([]byte, error) {
	var options metav1.DeleteOptions
	if len(sent) > 0 {
		if _, err := wire.Decode(contentType, sent, &options); err != nil {
			return nil, fmt.Errorf("decode the options of the deletion: %w", err)
		}
	}
	options.TypeMeta = metav1.TypeMeta{} // It is the same for all groups.
	options.DryRun = []string{metav1.DryRunAll}
	return json.Marshal(&options)
}
