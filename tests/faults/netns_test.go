package faults

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const (
	bridgeName    = "gpuquota0"
	bridgeAddress = "10.98.0.1" // the control plane, the proxies, the delaying store
)

// command runs a program of the system to its end.
func command(argv ...string) error {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func commands(lines ...string) error {
	for _, line := range lines {
		if err := command(strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// makeBridge sets up the network of the namespace that we are in, which nobody else uses.
func makeBridge() error {
	here, err := os.Readlink(ownNetwork)
	if err != nil {
		return err
	}
	if here == os.Getenv(outsideVariable) {
		return errors.New("this is the network of the machine")
	}
	return commands(
		"ip link set lo up",
		"ip link add "+bridgeName+" type bridge",
		"ip addr add "+bridgeAddress+"/24 dev "+bridgeName,
		"ip link set "+bridgeName+" up")
}

// netns is a network namespace with one address on the bridge. It lives as long as its file is open.
type netns struct {
	file    *os.File
	address string
}

// newNetns makes the namespace of host number index.
func newNetns(index int) (*netns, error) {
	n := &netns{address: fmt.Sprintf("10.98.0.%d", index)}
	failure := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and with it its namespace of old.
		runtime.LockOSThread()
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
		failure <- err
	}()
	if err := <-failure; err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	link := fmt.Sprintf("gq%d", index)
	inside := strings.Join(n.argv(), " ")
	if err := commands(
		fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", link, n.path()),
		fmt.Sprintf("ip link set %s master %s up", link, bridgeName),
		inside+" ip link set lo up",
		fmt.Sprintf("%s ip addr add %s/24 dev eth0", inside, n.address),
		inside+" ip link set eth0 up"); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *netns) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// argv goes in front of a command that is to run inside. nsenter becomes that command, so the
// process id stays.
func (n *netns) argv() []string { return []string{"nsenter", "--net=" + n.path()} }

func (n *netns) close() { _ = n.file.Close() }

func TestNetns(t *testing.T) {
	needNamespaces(t)
	n, err := newNetns(99)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	// Only the two ends of one bridge are there.
	out, err := exec.Command("nsenter", "--net="+n.path(), "ip", "-o", "addr", "show", "dev", "eth0").CombinedOutput()
	if err != nil || !strings.Contains(string(out), n.address+"/24") {
		t.Errorf("inside: %v: %s", err, out)
	}
	listener, err := net.Listen("tcp", bridgeAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan string, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			accepted <- err.Error()
			return
		}
		defer connection.Close()
		host, _, _ := net.SplitHostPort(connection.RemoteAddr().String())
		accepted <- host
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	argv := append(n.argv(), "bash", "-c", "exec 3<>/dev/tcp/"+bridgeAddress+"/"+port)
	if err := command(argv...); err != nil {
		t.Fatal(err)
	}
	if from := <-accepted; from != n.address {
		t.Errorf("a connection from %s, want %s", from, n.address)
	}
}
