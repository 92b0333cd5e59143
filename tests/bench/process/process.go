// Package process reads what a process costs from /proc.
package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU that the process has used so far, in user and kernel mode, all threads. Linux counts in
// hundredths of a second.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// the name, in parentheses, may hold anything
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Use of memory.
type Use struct{ ResidentKiB, PeakKiB int }

// Memory of the process.
func Memory(pid int) (Use, error) {
	var use Use
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "VmRSS: %d kB", &use.ResidentKiB)
		fmt.Sscanf(line, "VmHWM: %d kB", &use.PeakKiB)
	}
	return use, err
}
