package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is one child of ours. It dies with us, whatever ends us: Pdeathsig.
type Process struct {
	Name    string
	LogFile string

	cmd      *exec.Cmd
	done     chan struct{}
	err      error
	stopping atomic.Bool
}

type startRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

var starter struct {
	once     sync.Once
	requests chan startRequest
}

// startOnStableThread starts cmd from a thread that never ends: the kernel sends the parent
// death signal when the thread that forked goes away, not when the process does.
func startOnStableThread(cmd *exec.Cmd) error {
	starter.once.Do(func() {
		starter.requests = make(chan startRequest)
		go func() {
			runtime.LockOSThread()
			for request := range starter.requests {
				request.reply <- request.cmd.Start()
			}
		}()
	})
	request := startRequest{cmd: cmd, reply: make(chan error, 1)}
	starter.requests <- request
	return <-request.reply
}

// StartProcess runs a program in a process group of its own, its output going to logFile.
func StartProcess(name, logFile string, env []string, argv ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = filepath.Dir(logFile)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := startOnStableThread(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	process := &Process{Name: name, LogFile: logFile, cmd: cmd, done: make(chan struct{})}
	go func() {
		process.err = cmd.Wait()
		close(process.done)
	}()
	return process, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended: nil for exit status 0. Only valid once Done is closed.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Running says whether it has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the process and what it started.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

// Stop asks it to end and makes it end after the grace.
func (p *Process) Stop(grace time.Duration) error {
	if p == nil {
		return nil
	}
	p.stopping.Store(true)
	if grace > 0 && p.Signal(syscall.SIGTERM) == nil {
		// A stopped process (SIGSTOP) acts on the request only when it goes on.
		_ = p.Signal(syscall.SIGCONT)
		select {
		case <-p.done:
			return p.err
		case <-time.After(grace):
		}
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return p.err
}

// Log returns the last bytes of its output.
func (p *Process) Log(limit int) string {
	content, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	if len(content) > limit {
		content = content[len(content)-limit:]
		if i := bytes.IndexByte(content, '\n'); i >= 0 {
			content = content[i+1:]
		}
	}
	return string(content)
}

var ports struct {
	sync.Mutex
	taken map[int]bool
}

// FreePort returns a loopback port that nobody listens on. It is below the range from which
// the kernel takes ports of outgoing connections, so it stays free across a restart.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.taken == nil {
		ports.taken = map[int]bool{}
	}
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if ports.taken[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		ports.taken[port] = true
		return port, nil
	}
	return 0, errors.New("no free port on 127.0.0.1 between 20000 and 32000")
}
