// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"errors"
	"fmt"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func ExampleParse() {
	secret := map[string][]byte{
		"server": []byte("https://10.4.0.11:6443"),
		"token":  []byte("the token of a ServiceAccount"),
	}
	_, err := kubeconfig.Parse(secret, kubeconfig.Options{}, kubeconfig.Policy{})
	if refused, ok := errors.AsType[*kubeconfig.Error](err); ok {
		fmt.Println(refused.Reason)
		fmt.Println(refused)
	}

	secret["token"] = []byte("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl")
	connection, err := kubeconfig.Parse(secret, kubeconfig.Options{}, kubeconfig.Policy{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(connection.Endpoint.Server, connection.Credential)
	// Output:
	// InvalidKubeconfig
	// token: the token has a space, a line break or another character that no token has; store it without them
	// https://10.4.0.11:6443 Token (redacted)
}

func ExampleTransport_Swap() {
	secret := func(token string) map[string][]byte {
		return map[string][]byte{"server": []byte("https://10.4.0.11:6443"), "token": []byte(token)}
	}
	policy := kubeconfig.Policy{}
	connection, err := kubeconfig.Parse(secret("old"), kubeconfig.Options{}, policy)
	if err != nil {
		fmt.Println(err)
		return
	}
	transport, err := kubeconfig.NewTransport(connection, policy)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close()
	config := kubeconfig.RESTConfig(connection.Endpoint, transport) // for any client

	renewed, err := kubeconfig.Parse(secret("new"), kubeconfig.Options{}, policy)
	if err != nil {
		fmt.Println(err)
		return
	}
	if renewed.Endpoint.Fingerprint() == connection.Endpoint.Fingerprint() {
		err = transport.Swap(renewed.Credential)
	}
	fmt.Println(config.Host, err)
	// Output:
	// https://10.4.0.11:6443 <nil>
}

func ExampleClassify() {
	reason, message := kubeconfig.Classify(&kubeconfig.StatusError{Code: 401})
	fmt.Println(reason)
	fmt.Println(message)
	// Output:
	// Unauthorized
	// The API server does not accept the credentials (status 401); they may have expired or been revoked, or belong to another cluster. Store new credentials in the Secret.
}
