// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Permissions are the subjects on which a NATS user may publish and subscribe.
type Permissions struct {
	Publish   Subjects `json:"publish"`
	Subscribe Subjects `json:"subscribe"`
}

// Subjects are what is allowed, except what is denied.
type Subjects struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
}

// String returns the permissions as nats-server reads them.
func (p Permissions) String() string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // nats-server does not read escapes.
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(p) // Strings can be encoded.
	return strings.TrimSpace(text.String())
}

const replies = "_INBOX.>"

// HubPermissions lets a hub follow entities, and write their status and its canary. It cannot write an entity or
// create a bucket.
func HubPermissions(buckets ...string) Permissions {
	p := Permissions{Subscribe: Subjects{Allow: []string{replies}}}
	for _, name := range buckets {
		status := entity.StatusBucket(name)
		p.Publish.Allow = slices.Concat(p.Publish.Allow, follow(name), []string{"$KV." + name + "." + bucket.CanaryPrefix + ">"},
			follow(status), []string{"$KV." + status + ".>"})
	}
	return p
}

// WriterPermissions is for a portal or the command entity: it reads and writes entities, reads their status, and
// cannot write canaries.
func WriterPermissions(buckets ...string) Permissions {
	p := Permissions{Subscribe: Subjects{Allow: []string{replies}}}
	for _, name := range buckets {
		p.Publish.Allow = slices.Concat(p.Publish.Allow, follow(name), []string{"$KV." + name + ".>"}, follow(entity.StatusBucket(name)))
		p.Publish.Deny = append(p.Publish.Deny, "$KV."+name+"."+bucket.CanaryPrefix+">")
	}
	return p
}

func follow(name string) []string {
	stream := "KV_" + name
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.DIRECT.GET." + stream, // of a revision
		"$JS.API.DIRECT.GET." + stream + ".>",
		"$JS.API.CONSUMER.CREATE." + stream + ".>",
		"$JS.API.CONSUMER.INFO." + stream + ".>",
		"$JS.API.CONSUMER.DELETE." + stream + ".>",
		"$JS.FC." + stream + ".>", // the responses to flow control
	}
}
