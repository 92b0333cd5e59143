// Package faults holds gpuquota to "never over, never stuck" while processes are killed, frozen and
// cut off. Everything runs in network namespaces of the test's own: the control plane in one, each
// replica in another, joined by a bridge, so that the API server reaches the replicas through a
// real Service and nothing touches the network of the machine.
//
//	go test -v -run TestFaultsShort ./faults -seed 7
//	go test -v -run TestFaultsLong ./faults -duration 30m
package faults

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gpuquota.io/tests/install"
)

var (
	seedFlag = flag.Int64("seed", 0, "seed of the run; 0: a new one, which is printed")
	duration = flag.Duration("duration", 0, "how long TestFaultsLong runs; 0: it is skipped")
	electing = flag.Bool("leader-elect", true, "two replicas with leader election; false: one without")
	only     = flag.String("faults", "", "comma-separated names of faults; all of them when empty")
	keepDir  = flag.String("keep", "", "directory that keeps logs and traces of the run")

	programBin string
	repository string
	// noNamespaces says why there are none here; every test is skipped then.
	noNamespaces error
)

const (
	// outsideVariable tells the process inside which network it must not be in.
	outsideVariable = "GPUQUOTA_FAULTS_OUTSIDE"
	ownNetwork      = "/proc/self/ns/net"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(outsideVariable) == "" {
		code, err := runInside()
		if err == nil {
			os.Exit(code)
		}
		noNamespaces = err
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

// runInside runs this program again, in a network namespace of its own, and says how it ended. An
// error means that it could not begin.
func runInside() (int, error) {
	outside, err := os.Readlink(ownNetwork)
	if err != nil {
		return 0, err
	}
	// The parent's death signal is that of this thread.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), outsideVariable+"="+outside)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("no network namespace of its own: %w", err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		return 1, nil
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	fmt.Fprintf(os.Stderr, "the tests ended: %v\n", cmd.ProcessState)
	return 1, nil
}

func run(m *testing.M) int {
	var err error
	if repository, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if programBin, err = install.Program(repository); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := makeBridge(); err != nil {
		noNamespaces = err
	}
	return m.Run()
}

func needNamespaces(t *testing.T) {
	t.Helper()
	if noNamespaces != nil {
		t.Skipf("no network namespaces here (needs root or user namespaces): %v", noNamespaces)
	}
}

// newSeed gives the seed of a test and prints it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(*seedFlag)
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("seed %d (run again with -seed %d)", seed, seed)
	return seed
}

// newRand gives one of several independent sequences of a seed.
func newRand(seed, sequence uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, sequence)) }
