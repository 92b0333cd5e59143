// Command controlplane runs a control plane on loopback until it is told to stop.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gpuquota.io/tests/controlplane"
)

const usage = `Usage: controlplane up --dir DIR [--nodes LIST] [--timeout DURATION]

Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK on loopback,
writes DIR/kubeconfig, and runs until SIGINT or SIGTERM. DIR/ready exists once all is up.

`

func main() {
	if len(os.Args) < 2 || os.Args[1] != "up" {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	dir := flags.String("dir", "", "directory for kubeconfig, certificates, logs and data")
	nodes := flags.String("nodes", "a100=4x8xA100-80GB,h100=2x8xH100",
		"simulated nodes as PREFIX=COUNT[xGPUSxMODEL],…; \"none\" for no nodes")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long the start may take")
	_ = flags.Parse(os.Args[2:])
	if *dir == "" || flags.NArg() > 0 {
		flags.Usage()
		os.Exit(2)
	}
	if err := up(*dir, *nodes, *timeout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func up(dir, nodeList string, timeout time.Duration) error {
	specs, err := controlplane.ParseNodes(nodeList)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin := time.Now()
	progress := func(format string, args ...any) {
		fmt.Printf("    %4.1f s  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	readyFile := dir + "/ready"
	_ = os.Remove(readyFile)
	c, err := controlplane.Start(starting, controlplane.Options{Dir: dir, Progress: progress})
	if err != nil {
		return err
	}
	defer c.Stop()
	if len(specs) > 0 {
		progress("creating %d nodes", len(specs))
		if err := controlplane.CreateNodes(starting, c.Client(), specs); err != nil {
			return err
		}
	}
	if err := os.WriteFile(readyFile, []byte(c.Server+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(readyFile)
	progress("ready: %s", c.Kubeconfig)
	select {
	case <-ctx.Done():
		return nil
	case name := <-c.Ended():
		return fmt.Errorf("%s ended by itself:\n%s", name, c.Process(name).Log(4096))
	}
}
