package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"
)

// traceEvent is a line of what GPUQUOTA_TRACE names; see controller/trace.h.
type traceEvent struct {
	NS    int64       `json:"ns"`
	By    string      `json:"by"`
	Event string      `json:"event"`
	Epoch uint64      `json:"epoch"`
	Seq   uint64      `json:"seq"`
	UIDs  []types.UID `json:"uids"`
}

// tracer reads on in the trace of a replica.
type tracer struct {
	file   string
	offset int64
	events map[string]int
	grants map[types.UID]bool
}

// read takes what is new, up to the last whole line, and says whether there is a trace at all.
func (t *tracer) read() (bool, error) {
	if t.events == nil {
		t.events, t.grants = map[string]int{}, map[types.UID]bool{}
	}
	file, err := os.Open(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer file.Close()
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return false, err
	}
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			break
		} else if err != nil {
			return false, err
		}
		t.offset += int64(len(line))
		var event traceEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return false, fmt.Errorf("%s: %w in %q", t.file, err, line)
		}
		t.events[event.Event]++
		if event.Event == "grant" && len(event.UIDs) > 0 {
			t.grants[event.UIDs[0]] = true
		}
	}
	return t.offset > 0, nil
}

// checkTraces holds what the replicas did against the model of the journal's protocol. A process that
// was killed may have left half a line at the end of its trace.
func checkTraces(files []string) error {
	var errs []error
	for _, file := range files {
		t := tracer{file: file}
		if _, err := t.read(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
