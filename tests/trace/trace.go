// Package trace reads what the program traces of the journal's protocol (controller/trace.h) and holds
// it to the guards of the model's steps (tests/model/journal.pml, tests/model/transitions.txt).
package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// Line is one event. The API server's own are "created" and "deleted", of one pod each, added by who
// watches it; their Epoch and Seq are 0.
type Line struct {
	NS    int64    `json:"ns"`
	By    string   `json:"by"`
	Event string   `json:"event"`
	Epoch uint64   `json:"epoch"`
	Seq   uint64   `json:"seq"`
	UIDs  []string `json:"uids"`
}

func (l Line) String() string {
	uids := fmt.Sprint(l.UIDs)
	if len(l.UIDs) > 4 {
		uids = fmt.Sprintf("%v and %d more", l.UIDs[:4], len(l.UIDs)-4)
	}
	return fmt.Sprintf("%d %s %s epoch=%d seq=%d %s", l.NS, l.By, l.Event, l.Epoch, l.Seq, uids)
}

// Now is the clock of the program's lines: CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// The longest line that the program writes, and then some.
const maxLine = 1 << 20

// Read reads lines. What follows the last line break is left out: a process that was killed while it
// wrote.
func Read(r io.Reader) ([]Line, error) {
	var lines []Line
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		var line Line
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		lines = append(lines, line)
	}
}

// readLine returns one whole line; io.EOF where there is none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		text = append(text, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// ReadFiles reads several files and puts their lines into the order of time.
func ReadFiles(names ...string) ([]Line, error) {
	var all [][]Line
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines, err := Read(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, lines)
	}
	return Merge(all...), nil
}

// Merge puts lines of several origins into the order of time.
func Merge(origins ...[]Line) []Line {
	var all []Line
	for _, lines := range origins {
		all = append(all, lines...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].NS < all[j].NS })
	return all
}
