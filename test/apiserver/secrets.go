package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// secrets is what the server knows its users by.
type secrets struct {
	// token is the administrator's.
	token     string
	tokenFile string
	// keyFile signs the tokens of ServiceAccounts.
	keyFile string
}

// writeSecrets makes secrets that are valid for one run.
func writeSecrets(dir string) (secrets, error) {
	s := secrets{
		token:     rand.Text(),
		tokenFile: filepath.Join(dir, "tokens.csv"),
		keyFile:   filepath.Join(dir, "service-accounts.key"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return s, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return s, fmt.Errorf("encode key: %w", err)
	}
	files := map[string][]byte{
		s.keyFile:   pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		s.tokenFile: []byte(s.token + ",admin,admin,system:masters\n"),
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return s, fmt.Errorf("write secret: %w", err)
		}
	}
	return s, nil
}

// writeKubeconfig writes c as a file for programs that read one.
func writeKubeconfig(c *rest.Config, path string) error {
	const name = "atoll-test"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
