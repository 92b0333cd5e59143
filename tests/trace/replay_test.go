package trace

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// lines reads "SECONDS BY EVENT EPOCH SEQ UID…", one a line.
func lines(t *testing.T, text string) []Line {
	t.Helper()
	var all []Line
	for _, one := range strings.Split(text, "\n") {
		var line Line
		var seconds float64
		fields := strings.Fields(one)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 5 {
			t.Fatalf("%q has no five fields", one)
		}
		if _, err := fmt.Sscan(strings.Join(fields[:5], " "), &seconds, &line.By, &line.Event,
			&line.Epoch, &line.Seq); err != nil {
			t.Fatalf("%q: %v", one, err)
		}
		line.NS = int64(seconds * 1e9)
		line.UIDs = fields[5:]
		all = append(all, line)
	}
	return Merge(all)
}

// Begins of traces: a leads in epoch 1, with u granted; b takes over.
const (
	leads = `
		1 a fence   1 10
		1 a barrier 1 10
		1 a lead    1 10
	`
	grants = leads + `
		2 a write   1 11 u
		2 a written 1 11
		2 a grant   1 11 u
	`
	taken = grants + `
		5 b fence   2 12 u
		5 b barrier 2 12
		5 b lead    2 12
	`
)

// What the model allows.
func TestReplayAllows(t *testing.T) {
	for name, text := range map[string]string{
		"a life": grants + `
			3  api created 0 0 u
			3.1 a seen   1 11 u
			4  a write   1 12 v
			4  a written 1 12
			4  a grant   1 12 v
			65 a end     1 12 v
			66 api deleted 0 0 u
			70 a stop    1 12
		`,
		"one write for several, asked again": leads + `
			2  a write   1 11 u v
			3  a written 1 11
			3  a grant   1 11 u
			3  a grant   1 11 v
			4  a grant   1 11 u
			64 a end     1 11 u
		`,
		"the answer to a write is lost": leads + `
			2  a write   1 11 u
			4  a write   1 12 u v
			5  a written 1 12
			5  a grant   1 12 u
			5  a grant   1 12 v
		`,
		"the same write again": leads + `
			2  a write   1 11 u v
			4  a write   1 11 v u
			5  a written 1 11
			5  a grant   1 11 u
		`,
		"taken over and ended": taken + `
			6  a lost    1 11
			65 b end     2 12 u
		`,
		"taken over twice": taken + `
			6  a fence   3 13 u
			6  a barrier 3 13
			6  a lead    3 13
			7  a grant   3 13 u
			8  api created 0 0 u
			8  a seen    3 13 u
			9  b fence   4 14
		`,
		"granted by one that was frozen, held by the fence": leads + `
			2  a write   1 11 u
			2  a written 1 11
			5  b fence   2 12 u
			5  b barrier 2 12
			5  b lead    2 12
			6  a grant   1 11 u
			6  a lost    1 11
		`,
		"the line of a fence comes after that of the next": `
			1  b fence   2 10
			2  a fence   1 9
			2  a lost    1 9
			3  b barrier 2 10
		`,
		"seen, and not taken over": grants + `
			3  api created 0 0 u
			3  a seen    1 11 u
			5  b fence   2 12
		`,
		"stored, and not taken over: the barrier shows it": grants + `
			3  api created 0 0 u
			5  b fence   2 12
		`,
		"a later write does not make it younger": grants + `
			40 a write   1 12 u v
			40 a written 1 12
			62 a end     1 12 u
		`,
		"never answered": leads + `
			2  a write   1 11 u
			3  a written 1 11
			63 a end     1 11 u
		`,
		"found by a GET, gone, given back": grants + `
			3  api created 0 0 u
			4  a seen    1 11 u
			5  api deleted 0 0 u
			70 a write   1 12 v
			70 a written 1 12
			70 a grant   1 12 v
		`,
		"a fence is told of after its answer": `
			1   a written 1 1
			1.1 a fence   1 1
			2   a barrier 1 1
		`,
		"seen while it is taken over": grants + `
			4.9 b seen    2 0 u
			5   b fence   2 12
			5.1 api created 0 0 u
		`,
		"read a while before the fence": taken + `55 b end 2 12 u`,
		"killed and resumed": grants + `
			4  a fence   2 12 u
			4  a barrier 2 12
			4  a lead    2 12
			5  a grant   2 12 u
		`,
		"the watcher is told late": grants + `
			2.5 a seen    1 11 u
			3   api created 0 0 u
		`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, breach := range Replay(lines(t, text), Options{}) {
				t.Error(breach)
			}
		})
	}
}

// What it forbids: by rule, traces that break this rule and no other.
var forbidden = map[string]map[string]string{
	ruleKnownEvent: {
		"another word": leads + `2 a granted 1 10 u`,
	},
	ruleEpochUnique: {
		"two fences of one epoch": `
			1 a fence 1 10
			2 b fence 1 10
		`,
	},
	ruleEpochGrows: {
		"back": `
			1 a fence 3 10
			2 a fence 2 11
		`,
	},
	ruleFenceKeeps: {
		"forgotten": grants + `5 b fence 2 12`,
		"forgotten by the second": taken + `
			6 a fence 3 13
		`,
		"ended only later": grants + `
			5  b fence   2 12
			80 a end     1 11 u
		`,
		"seen by one that no longer held it": taken + `
			6 a seen  1 11 u
			7 a fence 3 13
		`,
		"forgotten by one's own next life": grants + `5 a fence 2 12`,
		"stored after the fence":           grants + "5 b fence 2 12\n 6 api created 0 0 u",
	},
	rulePastFence: {
		"written after the fence, by whatever": leads + `
			5 b fence   2 12
			6 a write   1 11 u
			6 a written 1 11
			6 a grant   1 11 u
		`,
	},
	ruleBarrier: {
		"before the fence": `
			1 a barrier 1 10
			2 a fence   1 10
		`,
		"of the epoch before": leads + `
			2 a fence   2 11
			2 a barrier 1 10
		`,
		"after the journal was lost": `
			1 a fence   1 10
			2 a lost    1 10
			3 a barrier 1 10
		`,
	},
	ruleLead: {
		"without a barrier": `
			1 a fence 1 10
			2 a lead  1 10
		`,
		"with that of the epoch before": `
			1 a fence   1 10
			2 a barrier 1 10
			3 a fence   2 11
			4 a lead    2 11
		`,
		"without anything": `1 a lead 1 10`,
		"after it stopped": `
			1 a fence   1 10
			2 a barrier 1 10
			3 a stop    1 10
			4 a lead    1 10
		`,
	},
	ruleWrite: {
		"without a fence":            `1 a write 1 10 u`,
		"under another epoch":        leads + `2 a write 2 11 u`,
		"after the journal was lost": leads + "2 a lost 1 10\n 3 a write 1 11 u",
	},
	ruleSeqGrows: {
		"back": leads + `
			2 a write 1 12 u
			3 a write 1 11 u
		`,
		"another write under the same": leads + `
			2 a write 1 11 u
			3 a write 1 11 u v
		`,
		"that of the fence": leads + `2 a write 1 10 u`,
	},
	ruleWritten: {
		"never begun":             leads + `2 a written 1 11`,
		"a fence has another seq": "1 a written 1 2\n 2 a fence 1 1",
		"two without a fence":     "1 a written 1 1\n 2 a written 2 1\n 3 a fence 2 1",
		"begun by another":        leads + "2 a write 1 11 u\n 3 b written 1 11",
		"begun in a past life":    leads + "2 a write 1 11 u\n 3 a fence 2 12\n 4 a written 2 11",
	},
	ruleGrantWritten: {
		"before the write is known to have succeeded": leads + `
			2 a write   1 11 u
			3 a grant   1 11 u
			4 a written 1 11
		`,
		"without a write": leads + `2 a grant 1 10 u`,
		"in another write than the one that succeeded": leads + `
			2 a write   1 11 u
			3 a write   1 12 v
			4 a written 1 12
			5 a grant   1 12 u
		`,
		"with a seq that does not hold it": grants + `
			3 a write   1 12 u v
			4 a written 1 12
			5 a grant   1 11 v
		`,
		"with a seq that is not known to be written": grants + `
			3 a write   1 12 u v
			4 a grant   1 12 u
		`,
		"after it was given back": grants + `
			70 a end   1 11 u
			71 a grant 1 11 u
		`,
	},
	ruleGrantLeader: {
		"before it leads": `
			1 a fence   1 10 u
			2 a barrier 1 10
			3 a grant   1 10 u
		`,
		"after the journal was lost": grants + "3 a lost 1 11\n 4 a grant 1 11 u",
		"after it stopped":           grants + "3 a stop 1 11\n 4 a grant 1 11 u",
		"under the epoch before":     grants + "3 a fence 2 12 u\n 4 a grant 1 11 u",
		"by one that never fenced":   grants + "4 b grant 1 11 u",
	},
	ruleSeen: {
		"never stored": grants + `
			3 a   seen    1 11 u
			4 a   write   1 12 v
			4 a   written 1 12
			4 a   grant   1 12 v
			5 api created 0 0 v
		`,
		"stored long after": grants + `
			3  a   seen    1 11 u
			30 api created 0 0  u
		`,
	},
	ruleEndTTL: {
		"too soon": grants + `61 a end 1 11 u`,
		"too soon after the last answer": grants + `
			30 a grant 1 11 u
			70 a end   1 11 u
		`,
		"too soon after it was taken over": taken + `49 b end 2 12 u`,
		"not held":                         leads + `70 a end 1 10 u`,
		"held by another":                  taken + `70 a end 1 11 u` + "\n 71 a end 1 11 u",
	},
	ruleEndAbsent: {
		"the pod is there": grants + `
			20 api created 0 0 u
			70 a   end     1 11 u
		`,
		"it is deleted much later": grants + `
			20 api created 0 0 u
			70 a   end     1 11 u
			90 api deleted 0 0 u
		`,
	},
	ruleCreated: {
		"never granted":  leads + `2 api created 0 0 u`,
		"granted later":  leads + "1.5 api created 0 0 u\n 2 a write 1 11 u\n 3 a written 1 11\n 4 a grant 1 11 u",
		"another's uids": grants + `3 api created 0 0 u v`,
	},
}

func TestReplayForbids(t *testing.T) {
	for _, rule := range Rules {
		if len(forbidden[rule]) == 0 {
			t.Errorf("no trace breaks %s", rule)
		}
		for name, text := range forbidden[rule] {
			t.Run(rule+"/"+name, func(t *testing.T) {
				breaches := Replay(lines(t, text), Options{})
				if len(breaches) == 0 {
					t.Fatal("it is allowed")
				}
				for _, breach := range breaches {
					if breach.Rule != rule {
						t.Errorf("not only %s: %s", rule, breach)
					}
				}
			})
		}
	}
}

func TestReplayOptions(t *testing.T) {
	early := grants + `20 a end 1 11 u`
	if breaches := Replay(lines(t, early), Options{TTL: 10 * time.Second}); len(breaches) > 0 {
		t.Error("a time to live of 10 s was over: ", breaches)
	}
	if breaches := Replay(lines(t, early), Options{TTL: 20 * time.Second}); len(breaches) != 1 {
		t.Error("a time to live of 20 s was not over: ", breaches)
	}
	direct := leads + `2 api created 0 0 u`
	if breaches := Replay(lines(t, direct), Options{Ungranted: true}); len(breaches) > 0 {
		t.Error(breaches)
	}
}

// After a journal that was lost, one time to live has to pass before the barrier.
func TestReplayJournalLost(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"waited": {grants + `
			5  b fence   2 12
			65 b barrier 2 12
			65 b lead    2 12
		`, ""},
		"not waited": {grants + `
			5  b fence   2 12
			6  b barrier 2 12
		`, ruleFenceKeeps},
		"the second has waited": {grants + `
			5  b fence   2 12
			6  a fence   3 13
			66 a barrier 3 13
		`, ""},
		"nor has the second": {grants + `
			5 b fence   2 12
			6 a fence   3 13
			7 a barrier 3 13
		`, ruleFenceKeeps},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, breach := range Replay(lines(t, c.text), Options{JournalLost: true}) {
				got = append(got, breach.Rule)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if len(Replay(lines(t, grants+"5 b fence 2 12\n 65 b barrier 2 12"), Options{})) != 1 {
		t.Error("a journal that was not lost may be left out of a fence")
	}
}

// The guards have the same names here and beside the model.
func TestTransitions(t *testing.T) {
	file, err := os.Open("../model/transitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	named := []string{ruleKnownEvent} // of no event
	in := bufio.NewScanner(file)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) < 2 {
			t.Fatalf("%q names no step", in.Text())
		}
		named = append(named, fields[2:]...)
		for _, breach := range Replay([]Line{{By: "a", Event: fields[0]}}, Options{}) {
			if breach.Rule == ruleKnownEvent {
				t.Errorf("%s is in transitions.txt and not in the replay", fields[0])
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	for _, rule := range named {
		if !slices.Contains(Rules, rule) {
			t.Errorf("%s is in transitions.txt and not in the replay", rule)
		}
	}
	for _, rule := range Rules {
		if !slices.Contains(named, rule) {
			t.Errorf("%s is in the replay and not in transitions.txt", rule)
		}
	}
}

// A replay of a long run is quick.
func BenchmarkReplay(b *testing.B) {
	all := []Line{
		{NS: 1, By: "a", Event: "fence", Epoch: 1},
		{NS: 2, By: "a", Event: "barrier", Epoch: 1},
		{NS: 3, By: "a", Event: "lead", Epoch: 1},
	}
	var held []string
	for i := range 20000 {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		if held = append(held, uid); len(held) > 50 {
			held = held[1:]
		}
		ns, seq := int64(10+4*i), uint64(i+1)
		all = append(all,
			Line{ns, "a", "write", 1, seq, slices.Clone(held)},
			Line{ns + 1, "a", "written", 1, seq, nil},
			Line{ns + 2, "a", "grant", 1, seq, []string{uid}},
			Line{ns + 3, "a", "seen", 1, seq, []string{uid}})
	}
	for b.Loop() {
		if breaches := Replay(all, Options{}); len(breaches) > 0 {
			b.Fatal(breaches[0])
		}
	}
}
