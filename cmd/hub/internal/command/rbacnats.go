// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

var errNoBuckets = errors.New("no module reads entities, so the hub needs no user of NATS")

// printNATS prints the users of a NATS server with the buckets of the modules.
func (f *rbacFlags) printNATS(p Program) error {
	picked, err := pick(p.Modules, f.modules)
	if err != nil {
		return err
	}
	var buckets []string
	for _, m := range picked {
		for _, input := range m.Inputs() {
			buckets = append(buckets, input.Name)
		}
	}
	if len(buckets) == 0 {
		return errNoBuckets
	}
	return printUsers(p.Stdout, []natsUser{
		{"The hub: it follows the entities, and writes their status and its canary.", "PUBLIC_NKEY_OF_THE_HUB", natshub.HubPermissions(buckets...)},
		{"A writer of entities, such as a portal.", "PUBLIC_NKEY_OF_THE_WRITER", natshub.WriterPermissions(buckets...)},
	})
}

// natsUser is a user of a NATS server.
type natsUser struct {
	comment, key string
	permissions  natshub.Permissions
}

// printUsers prints users as configuration of nats-server.
func printUsers(w io.Writer, users []natsUser) error {
	text := "authorization {\n  users: [\n"
	for _, user := range users {
		permissions := strings.ReplaceAll(user.permissions.String(), "\n", "\n      ")
		text += fmt.Sprintf("    # %s\n    {\n      nkey: %s\n      permissions: %s\n    }\n", user.comment, user.key, permissions)
	}
	_, err := io.WriteString(w, text+"  ]\n}\n")
	return err
}
