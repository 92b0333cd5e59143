// Package credentials holds gpuquota to its promise while the tokens that it shows to the API server
// are signed elsewhere, replaced, late, revoked and given back. Its control plane is one whose
// service account tokens a signer outside the API server signs, so that the tests can have any.
package credentials

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
	"gpuquota.io/tests/signer"
)

var (
	cluster    *controlplane.ControlPlane
	client     kubernetes.Interface
	signing    *signer.Signer
	webhookCA  *controlplane.CA
	programBin string
	manifests  string
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	repository, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	manifests = install.ManifestDir(repository)
	if programBin, err = install.Program(repository); err != nil {
		return 1, err
	}
	// They wait most of the time, for tokens that end.
	if err := flag.Set("test.parallel", "3"); err != nil {
		return 1, err
	}
	if webhookCA, err = controlplane.NewCA("gpuquota webhook"); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "gpuquota-signer-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "sign.sock")
	if signing, err = signer.Start(socket); err != nil {
		return 1, err
	}
	defer signing.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err = controlplane.Start(ctx, controlplane.Options{SigningEndpoint: socket})
	if err != nil {
		return 1, fmt.Errorf("control plane: %w", err)
	}
	defer cluster.Stop()
	client = cluster.Client()
	code = m.Run()
	select {
	case name := <-cluster.Ended():
		err = fmt.Errorf("%s ended by itself:\n%s", name, cluster.Process(name).Log(8192))
	default:
	}
	return code, err
}
