package controlplane

import (
	"context"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Credentials are what a kubeconfig of one cluster and one user says.
type Credentials struct {
	Server     string
	CA         []byte
	ClientCert []byte
	ClientKey  []byte
	Token      string
	TokenFile  string // wins over Token
	Namespace  string
}

// WriteKubeconfig writes a kubeconfig file, readable by its owner only.
func WriteKubeconfig(file string, credentials Credentials) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server:                   credentials.Server,
		CertificateAuthorityData: credentials.CA,
	}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: credentials.ClientCert,
		ClientKeyData:         credentials.ClientKey,
		Token:                 credentials.Token,
		TokenFile:             credentials.TokenFile,
	}
	config.Contexts["context"] = &clientcmdapi.Context{
		Cluster: "cluster", AuthInfo: "user", Namespace: credentials.Namespace,
	}
	config.CurrentContext = "context"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// WriteServiceAccountKubeconfig writes a kubeconfig with a fresh token of a service account.
// An empty server means the API server itself.
func (c *ControlPlane) WriteServiceAccountKubeconfig(ctx context.Context, file, namespace, name, server string) error {
	seconds := int64(12 * 3600)
	request, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}},
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of %s/%s: %w", namespace, name, err)
	}
	if server == "" {
		server = c.Server
	}
	return WriteKubeconfig(file, Credentials{Server: server, CA: c.CA.PEM, Token: request.Status.Token, Namespace: namespace})
}
