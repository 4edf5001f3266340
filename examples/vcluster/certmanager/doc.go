// SPDX-License-Identifier: Apache-2.0

/*
Package certmanager is the cert-manager plugin of vcluster: cert-manager runs in the host only, and serves the Certificates of
the tenant.

Certificates and Issuers go down, with the names of Issuers and Secrets translated, and their status comes back. Secrets that
they refer to, such as the password of a keystore or the key of a CA, go down, too. An issued Secret comes back, also after a
renewal, under the name that the Certificate of the tenant has for it. It is deleted with the Secret in the host.

The original finds the Certificate of an issued Secret with indexes of translated names. Here cert-manager itself records it:
the copy of the Certificate has an annotation with the name in its spec.secretTemplate. The original reads each reference to a
Secret by its path; here each field counts that the API of cert-manager calls a SecretRef, so that the references of solvers are
included. The original writes a label to a Secret of the tenant before it copies the Secret; here a hook finds out whether the
Secret is used. The original leaves the copy of a deleted Secret in the host; here it is deleted.

Left out are Certificates that cert-manager makes for an Ingress in the host, and the key of an ACME account, which stays in
the host. The CustomResourceDefinitions have to exist in both clusters. The lists of Certificates are requests to the API server
unless the client of the manager reads unstructured objects from its cache. The test is in crdtest, a Go module of its own with
the CustomResourceDefinitions of cert-manager.

	original    certificates, secrets and issuers, plugin with SDK v0.4.0    810 lines, with Certificates for an Ingress
	this one    certmanager.go                                               222 lines
*/
package certmanager
