// SPDX-License-Identifier: Apache-2.0

/*
Package zpages serves what somebody who debugs a hub asks it: profiles, what it is and how it was started.

# Usage

	pages := zpages.Handler(zpages.Options{Component: "hub", Version: version, Flags: flags})

# Pages

	/debug/pprof/   profiles, as net/http/pprof has them
	/statusz        since when the hub runs, and of which version it is
	/flagz          the values of its flags

The last two have the plain text of the pages of the same name that the components of Kubernetes have
(KEP-4827 and KEP-4828), whose code is a part of the API server's library and drags it in whole. As there, the
form is for people and may change.

# Considerations

Whoever can read these pages sees the command line, the names of all clusters and where the hub spends its
time, and can make it spend time. So the port is on loopback (package serving refuses others), where kubectl
port-forward reaches it, and a request must be for loopback by name, too: otherwise a web page that somebody on
the same machine looks at could read it under a name of its own (DNS rebinding).

A flag whose name says that it holds a secret, and the user, the password and the query of a URL, are not
shown. No flag of the hub holds any; those of others' hubs may. /debug/pprof/cmdline shows what was typed as it is.

There is no /configz. What a configuration file holds besides flags is the configuration of modules, of which
nobody but a module knows what is secret.
*/
package zpages
