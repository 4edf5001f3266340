// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig turns the data of a Secret into a validated connection to a remote, and makes
// the transport of it, whose credential can be replaced while it is in use.
//
// # Usage
//
// Parse reads the data, a Transport carries the requests, RESTConfig hands it to client-go, and
// Classify says what is wrong when a request fails:
//
//	connection, err := kubeconfig.Parse(secret.Data, kubeconfig.Options{}, policy)
//	transport, err := kubeconfig.NewTransport(connection, policy)
//	defer transport.Close()
//	c, err := client.New(kubeconfig.RESTConfig(connection.Endpoint, transport), client.Options{})
//	...
//	err = transport.Swap(renewed.Credential) // c goes on with it
//
// A Connection has two parts that change for different reasons. A new Credential at the same
// Endpoint is swapped under running clients. A new Endpoint is another server for all that anybody
// knows, and needs a new Transport. Each has a Fingerprint to tell a change by; that of a
// Credential is keyed, so that it can be shown.
//
// # What is read
//
// Without a key in Options, the first of these that the data has:
//
//	kubeconfig, value, value.yaml   a kubeconfig (ours, Cluster API, Flux)
//	config, with server             Argo CD's JSON
//	config                          a kubeconfig (vcluster)
//	token, with server              a ServiceAccount token, with ca.crt or caBundle; without, the
//	                                system's CAs. The Cluster may have the server instead.
//
// A key in Options is read as a kubeconfig, and config and token as above.
//
// # What is accepted
//
// A kubeconfig is input from a stranger that decides where the hub connects to and as whom. Of it
// only these are used: server (https), certificate-authority-data, tls-server-name, and either
// token or client-certificate-data with client-key-data. proxy-url (http, socks5) and
// insecure-skip-tls-verify need the operator's Policy. Everything else that acts on the hub or
// hides who acts is refused with a Reason of its own: commands, plugins, files, impersonation,
// basic authentication. So is whatever is not understood. All entries are judged, not only those of
// the current context, because which ones count is one edit away. Only three things are judged for
// the selected context alone, since they harm nobody elsewhere: whether there is a credential,
// whether it has expired, and whether the server's address may be dialled.
//
// A token beside a client certificate is refused. Servers differ in which of the two they look at
// first, so that nobody could say who the hub is there; and the rotation of one would look like the
// rotation of both.
//
// # Locking and lifetime
//
// Parse and everything that it returns is immutable. A Transport may be used by any number of
// goroutines. It starts none that wait for something: a replaced client certificate leaves a timer,
// and net/http's goroutines end with their connections, which Close ends. Locks are held for map
// operations only.
//
// # Considerations
//
// Nothing of client-go's clientcmd is called, only its types are used: clientcmd opens the files
// that a kubeconfig names, so that parsing alone could send the hub's own token to a stranger, or
// never return. The shape of the YAML is judged on its syntax tree, with no aliases, tags or second
// documents, and a limit on how much there is to parse. Its meaning comes from the decoder that
// kubectl has, so that there is no input that means one thing to a reviewer and another one to the
// hub; a fuzz target compares the two.
//
// An Error wraps nothing, and errors of parsers are never passed on, because they quote their
// input. Positions are given as indices, since the names of entries are the stranger's to choose.
// Likewise Classify says nothing that comes from the server: otherwise registering a remote would
// be a way of reading what listens inside the hub's network.
//
// For the same reason a Transport keeps what the server writes out of errors, with Discreet: a server that echoes
// the headers of a request would put the hub's token into whatever quotes the error. The price is that the
// body of a response of 400 and above is lost, also of one that a proxy in the remote passes on, and that a
// module sees which field was refused but not the words for it. In a watch the Status of an ERROR event is replaced
// in the same way; events with objects pass as they arrive. A Redactor replaces the credentials of many remotes in what
// is logged, those that they had before included.
//
// Addresses are judged when they are dialled, after name resolution, because a name that was
// harmless when it was checked may lead elsewhere a moment later. Those in a URL are judged by
// Parse too, to say so early. Behind a proxy, the proxy's address is what is dialled and judged.
//
// Requests for another host are refused rather than sent without the token: a TLS server may ask
// anybody for a client certificate, and would get it. For the same reason a proxy cannot be an
// https one.
//
// Two tokens share connections. A client certificate is part of a connection, so that its successor
// needs new ones: a new http.Transport is used from the next request on, and the old one's
// connections are closed after Transport.Drain. To client-go that looks like the end of a
// connection, after which a watch resumes where it was, without a list.
package kubeconfig
