// SPDX-License-Identifier: Apache-2.0

/*
Package access connects the commands of a hub to clusters: to the hub's own, and, in the commands that register
and check remotes, to a remote as its administrator.

# Usage

	var f access.Flags
	f.Bind(flags)
	hub, err := f.Hub()                  // sends no request yet
	err = hub.Get(ctx, key, &cluster)    // hub is a client.Client
	return hub.Explain(err)              // names the missing permission

# Considerations

Clients know the few kinds that commands use, and send no discovery requests: that
would be two requests more for each command, which take longer than the command itself.

A kubeconfig given here is the user's own, so all that kubectl does with one is done here too: files are
read and commands are run. The kubeconfig in a Secret of the hub follows stricter rules, see registry/kubeconfig.

The kubeconfig of a running dev is found, and no flag names it. So it may contain data only, and is never merged with
another.
*/
package access
