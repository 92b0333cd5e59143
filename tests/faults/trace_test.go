package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/trace"
)

// tracer reads on in what a replica traces of the journal's protocol; see controller/trace.h.
type tracer struct {
	file   string
	offset int64
	grants map[types.UID]bool
}

// read takes what is new, up to the last whole line, and says whether there is a trace at all.
func (t *tracer) read() (bool, error) {
	if t.grants == nil {
		t.grants = map[types.UID]bool{}
	}
	file, err := os.Open(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, t.offset, 64<<20))
	if err != nil {
		return false, err
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	t.offset += int64(len(content))
	lines, err := trace.Read(bytes.NewReader(content))
	if err != nil {
		return false, fmt.Errorf("%s: %w", t.file, err)
	}
	for _, line := range lines {
		if line.Event == "grant" && len(line.UIDs) > 0 {
			t.grants[types.UID(line.UIDs[0])] = true
		}
	}
	return t.offset > 0, nil
}

// checkTraces holds what the replicas did, and what became of the pods meanwhile, against the model of
// the journal's protocol.
func (r *faultRun) checkTraces() {
	r.Helper()
	var files []string
	for _, replica := range r.replicas {
		if _, err := os.Stat(replica.trace); err == nil {
			files = append(files, replica.trace)
		}
	}
	if len(files) == 0 {
		r.logf("no replica wrote a trace")
		return
	}
	lines, err := trace.ReadFiles(files...)
	if err != nil {
		r.Error(err)
		return
	}
	r.watcher.mu.Lock()
	lines = trace.Merge(lines, r.watcher.lines)
	r.watcher.mu.Unlock()
	breaches := trace.Replay(lines, trace.Options{})
	r.logf("%d lines of traces against the model: %d breaches", len(lines), len(breaches))
	for i, breach := range breaches {
		if i == 20 {
			r.Errorf("and %d more", len(breaches)-i)
			break
		}
		r.Errorf("the model forbids this: %s", breach)
	}
}
