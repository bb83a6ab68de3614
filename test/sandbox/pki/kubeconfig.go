package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig issues a client certificate for the identity and writes a configuration that uses it. The
// certificates are in the file itself, so that it can be copied.
func (a *Authority) Kubeconfig(path, server, name string, id Identity) error {
	pair, err := a.Issue(name, id)
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(pair.Cert)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	key, err := os.ReadFile(pair.Key)
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	config := api.NewConfig()
	config.Clusters["sandbox"] = &api.Cluster{Server: server, CertificateAuthorityData: a.pem}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts["sandbox"] = &api.Context{Cluster: "sandbox", AuthInfo: name}
	config.CurrentContext = "sandbox"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig %s: %w", name, err)
	}
	return write(path, data, 0o600)
}
