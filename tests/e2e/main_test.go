// Package e2e holds gpuquota to its promise on a real control plane. One control plane serves
// the whole run; each test has a program of its own, which decides for that test's namespaces
// only, so most tests run side by side.
package e2e

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
)

var (
	cluster    *controlplane.ControlPlane
	client     kubernetes.Interface
	webhookCA  *controlplane.CA
	programBin string
	repository string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	begin := time.Now()
	var err error
	if repository, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if programBin, err = install.Program(repository); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Tests wait for other processes most of the time, so more of them than processors fit.
	explicit := false
	flag.Visit(func(f *flag.Flag) { explicit = explicit || f.Name == "test.parallel" })
	if !explicit {
		if err := flag.Set("test.parallel", "4"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if webhookCA, err = controlplane.NewCA("gpuquota webhook"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err = controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		fmt.Fprintf(os.Stderr, "control plane: %v\n", err)
		return 1
	}
	defer cluster.Stop()
	client = cluster.Client()
	nodes, err := controlplane.ParseNodes("a100=8x8xA100-80GB,h100=4x8xH100,cpu=1")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := controlplane.CreateNodes(ctx, client, nodes); err != nil {
		fmt.Fprintf(os.Stderr, "nodes: %v\n", err)
		return 1
	}
	fmt.Printf("control plane with %d nodes is up after %.1f s\n", len(nodes), time.Since(begin).Seconds())
	code := m.Run()
	select {
	case name := <-cluster.Ended():
		fmt.Fprintf(os.Stderr, "%s ended by itself:\n%s\n", name, cluster.Process(name).Log(8192))
		code = 1
	default:
	}
	return code
}
