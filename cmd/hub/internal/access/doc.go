// SPDX-License-Identifier: Apache-2.0

/*
Package access connects commands to clusters: to the hub's, and to a remote as its administrator.

	var f access.Flags
	f.Bind(flags)
	hub, err := f.Hub()                  // sends no request yet
	err = hub.Get(ctx, key, &cluster)    // hub is a client.Client
	return hub.Explain(err)              // names the missing permission

Clients know the few kinds of most commands and send no discovery for them: its two requests take longer than a command. A
kubeconfig given here is the user's, so files are read and commands run as by kubectl; one in a Secret is not
(registry/kubeconfig). That of a dev also has the policy of its hub, and the address of its NATS server.
*/
package access
