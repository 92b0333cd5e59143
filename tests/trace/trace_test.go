package trace

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	const one = `{"ns":5,"by":"gpuquota-0","event":"write","epoch":3,"seq":17,"uids":["a","b"]}` + "\n"
	want := Line{NS: 5, By: "gpuquota-0", Event: "write", Epoch: 3, Seq: 17, UIDs: []string{"a", "b"}}
	long := `{"ns":6,"by":"x","event":"fence","epoch":1,"seq":1,"uids":["` +
		strings.Repeat("u", 200<<10) + `"]}` + "\n"
	for name, c := range map[string]struct {
		text string
		want []Line
		err  string
	}{
		"nothing":             {"", nil, ""},
		"a line":              {one, []Line{want}, ""},
		"cut by a kill":       {one + one[:20], []Line{want}, ""},
		"cut at its end":      {one + one[:len(one)-1], []Line{want}, ""},
		"longer than a block": {long + one, []Line{{6, "x", "fence", 1, 1, []string{strings.Repeat("u", 200<<10)}}, want}, ""},
		"no JSON":             {one + "hello\n" + one, nil, "line 2: "},
		"another field":       {`{"ns":5,"pod":"a"}` + "\n", nil, "line 1: "},
		"no end":              {strings.Repeat("x", 2<<20), nil, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := Read(strings.NewReader(c.text))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(lines, c.want) {
				t.Errorf("got %v, want %v", lines, c.want)
			}
		})
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a", `{"ns":1,"event":"x"}`+"\n"+`{"ns":3,"event":"y"}`+"\n")
	b := write("b", `{"ns":2,"event":"z"}`+"\n"+`{"ns":3,"event":"after y"}`+"\n")
	lines, err := ReadFiles(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range lines {
		got = append(got, line.Event)
	}
	if want := []string{"x", "z", "y", "after y"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := ReadFiles(a, filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a file that does not exist")
	}
	if _, err := ReadFiles(write("bad", "{\n")); err == nil || !strings.Contains(err.Error(), "bad: line 1") {
		t.Errorf("error %v does not name file and line", err)
	}
}

func TestNowIsMonotonic(t *testing.T) {
	first := Now()
	begin := time.Now()
	for Now() == first {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the clock stands")
		}
	}
	if Now() < first {
		t.Error("the clock went back")
	}
}
