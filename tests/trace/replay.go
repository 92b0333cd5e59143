package trace

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// Options of a replay; the zero value of each has a default.
type Options struct {
	TTL time.Duration // --reservation-ttl of the program; 0: 60 s
	// How far the line of an event may be from the moment that counts: another thread, a line that is
	// written after the act. 0: 250 ms.
	Slack time.Duration
	// How late who watches the API server may have been told of a pod. 0: 5 s.
	Lag time.Duration
	// How long before the line of its fence a new leader may have read what it takes over: the time
	// to live counts from there. 0: 15 s.
	Takeover time.Duration
	// Pods may have been stored that nobody granted: the webhook was not called for all.
	Ungranted bool
	// The journal was deleted or spoilt. Then a fence may leave out what it can't know, if its barrier
	// comes one time to live later.
	JournalLost bool
}

// Breach is an event that the model's guards forbid.
type Breach struct {
	Rule string // one of Rules
	Line Line
	Text string
}

func (b Breach) String() string { return fmt.Sprintf("%s: %s\n    %s", b.Rule, b.Text, b.Line) }

// The guards, by the names that tests/model/transitions.txt has for them.
const (
	ruleKnownEvent   = "known-event"
	ruleEpochUnique  = "epoch-unique"
	ruleEpochGrows   = "epoch-grows"
	ruleFenceKeeps   = "fence-takes-over"
	rulePastFence    = "grant-held-by-fence"
	ruleBarrier      = "barrier-after-fence"
	ruleLead         = "lead-after-barrier"
	ruleWrite        = "write-after-fence"
	ruleSeqGrows     = "seq-grows"
	ruleWritten      = "written-after-write"
	ruleGrantWritten = "grant-after-written"
	ruleGrantLeader  = "grant-by-leader"
	ruleSeen         = "seen-after-created"
	ruleEndTTL       = "end-after-ttl"
	ruleEndAbsent    = "end-of-absent"
	ruleCreated      = "created-after-grant"
)

// Rules are all guards.
var Rules = []string{
	ruleKnownEvent, ruleEpochUnique, ruleEpochGrows, ruleFenceKeeps, rulePastFence, ruleBarrier,
	ruleLead, ruleWrite, ruleSeqGrows, ruleWritten, ruleGrantWritten, ruleGrantLeader, ruleSeen,
	ruleEndTTL, ruleEndAbsent, ruleCreated,
}

// term is what one process did under one epoch.
type term struct {
	by      string
	epoch   uint64
	fence   Line
	barrier int64 // when it was passed, or 0
	leads   bool
	lost    bool
	stopped bool
	last    Line            // the last write, or the fence
	writes  map[uint64]Line // by seq
	written uint64          // up to here known to be in the journal
	// Reservations that are known to be in the journal, and since when their time to live counts.
	since map[string]int64
}

// release is when a reservation ceased to be one, in one epoch.
type release struct {
	epoch uint64
	ns    int64
}

type replay struct {
	options  Options
	breaches []Breach
	current  map[string]*term // by process
	terms    map[uint64]*term // by epoch
	created  map[string]int64
	deleted  map[string]int64
	grants   []Line
	granted  map[string]int64 // first
	releases map[string][]release
	early    map[string]Line // by process: a "written" that only its fence can explain
}

// Replay holds lines, in the order of Merge, to the guards of the model's steps.
//
// Lines are written beside the acts that they tell of, not with them: a process that is frozen
// between its fence and the line about it tells of it after the next fence. So what several processes
// did is compared by epoch and seq, as the journal orders it, and by time only where the slack is
// small against what is meant.
func Replay(lines []Line, options Options) []Breach {
	if options.TTL == 0 {
		options.TTL = 60 * time.Second
	}
	if options.Slack == 0 {
		options.Slack = 250 * time.Millisecond
	}
	if options.Takeover == 0 {
		options.Takeover = 15 * time.Second
	}
	if options.Lag == 0 {
		options.Lag = 5 * time.Second
	}
	r := &replay{
		options:  options,
		current:  map[string]*term{},
		terms:    map[uint64]*term{},
		created:  map[string]int64{},
		deleted:  map[string]int64{},
		granted:  map[string]int64{},
		releases: map[string][]release{},
		early:    map[string]Line{},
	}
	for _, line := range lines {
		for _, uid := range line.UIDs {
			switch line.Event {
			case "created":
				r.created[uid] = line.NS
			case "deleted":
				r.deleted[uid] = line.NS
			}
		}
	}
	for _, line := range lines {
		r.step(line)
	}
	for _, line := range r.early {
		r.breach(ruleWritten, line, "neither a write nor a fence has this seq")
	}
	r.checkFences()
	r.checkCreated(lines)
	return r.breaches
}

func (r *replay) breach(rule string, line Line, format string, args ...any) {
	r.breaches = append(r.breaches, Breach{rule, line, fmt.Sprintf(format, args...)})
}

func (r *replay) step(line Line) {
	t := r.current[line.By]
	if t != nil && t.epoch != line.Epoch {
		t = nil // not of the term that this line is about
	}
	switch line.Event {
	case "fence":
		r.fence(line)
	case "barrier":
		if t == nil || t.lost || t.stopped {
			r.breach(ruleBarrier, line, "a barrier of an epoch that was not fenced by it")
			return
		}
		t.barrier = line.NS
	case "lead":
		if t == nil || t.barrier == 0 || t.lost || t.stopped {
			r.breach(ruleLead, line, "leads without fence and barrier of this epoch")
			return
		}
		t.leads = true
	case "write":
		r.write(t, line)
	case "written":
		r.written(t, line)
	case "grant":
		r.grant(t, line)
	case "seen":
		r.seen(t, line)
	case "end":
		r.end(t, line)
	case "lost":
		if t != nil {
			t.lost = true
		}
	case "stop":
		// the epoch of a process that never fenced, or of the term that it gives up
		if t = r.current[line.By]; t != nil {
			t.stopped = true
		}
	case "created", "deleted":
	default:
		r.breach(ruleKnownEvent, line, "no such event")
	}
}

func (r *replay) fence(line Line) {
	if before := r.current[line.By]; before != nil && line.Epoch <= before.epoch {
		r.breach(ruleEpochGrows, line, "it had epoch %d before", before.epoch)
	}
	if other := r.terms[line.Epoch]; other != nil {
		r.breach(ruleEpochUnique, line, "epoch %d was fenced by %s at %d", line.Epoch, other.by,
			other.fence.NS)
	}
	t := &term{
		by:      line.By,
		epoch:   line.Epoch,
		fence:   line,
		last:    line,
		writes:  map[uint64]Line{line.Seq: line},
		written: line.Seq,
		since:   map[string]int64{},
	}
	for _, uid := range line.UIDs {
		t.since[uid] = line.NS - int64(r.options.Takeover)
	}
	if early, ok := r.early[line.By]; ok && early.Epoch == line.Epoch && early.Seq == line.Seq {
		delete(r.early, line.By)
	}
	r.current[line.By] = t
	if r.terms[line.Epoch] == nil {
		r.terms[line.Epoch] = t
	}
}

func (r *replay) write(t *term, line Line) {
	if t == nil || t.lost {
		r.breach(ruleWrite, line, "a write under an epoch that it does not hold")
		return
	}
	// The same write may be sent again; another one under the same seq could pass for it.
	if line.Seq < t.last.Seq || line.Seq == t.last.Seq && !sameUIDs(line.UIDs, t.last.UIDs) {
		r.breach(ruleSeqGrows, line, "its write before had seq %d", t.last.Seq)
	}
	t.last = line
	t.writes[line.Seq] = line
}

func (r *replay) written(t *term, line Line) {
	if t == nil {
		// a fence is a write too, and its own line may come after this one
		if before, ok := r.early[line.By]; ok {
			r.breach(ruleWritten, before, "neither a write nor a fence has this seq")
		}
		r.early[line.By] = line
		return
	}
	if _, ok := t.writes[line.Seq]; !ok {
		r.breach(ruleWritten, line, "no write with this seq began in this term")
		return
	}
	t.written = max(t.written, line.Seq)
	for _, uid := range t.writes[line.Seq].UIDs {
		if _, ok := t.since[uid]; !ok {
			t.since[uid] = line.NS
		}
	}
}

func (r *replay) grant(t *term, line Line) {
	r.grants = append(r.grants, line)
	for _, uid := range line.UIDs {
		if _, ok := r.granted[uid]; !ok {
			r.granted[uid] = line.NS
		}
		if t == nil || !t.leads || t.lost || t.stopped {
			r.breach(ruleGrantLeader, line, "grants and does not lead in this epoch")
			continue
		}
		_, known := t.since[uid]
		if !known || line.Seq > t.written || !slices.Contains(t.writes[line.Seq].UIDs, uid) {
			r.breach(ruleGrantWritten, line,
				"no journal up to seq %d, the last known to be written, holds it there", t.written)
			continue
		}
		t.since[uid] = line.NS
	}
}

func (r *replay) release(line Line, uid string) {
	r.releases[uid] = append(r.releases[uid], release{line.Epoch, line.NS})
}

func (r *replay) seen(t *term, line Line) {
	for _, uid := range line.UIDs {
		r.release(line, uid)
		if t != nil {
			delete(t.since, uid)
		}
		if len(r.created) == 0 {
			continue // nobody watched the API server
		}
		if at, ok := r.created[uid]; !ok || at > line.NS+int64(r.options.Lag) {
			r.breach(ruleSeen, line, "%s was not stored by then", uid)
		}
	}
}

func (r *replay) end(t *term, line Line) {
	for _, uid := range line.UIDs {
		r.release(line, uid)
		var since int64
		known := false
		if t != nil {
			since, known = t.since[uid]
			delete(t.since, uid)
		}
		age := time.Duration(line.NS - since)
		switch {
		case !known:
			r.breach(ruleEndTTL, line, "it holds no reservation of %s in this epoch", uid)
		case age < r.options.TTL-r.options.Slack:
			r.breach(ruleEndTTL, line, "%s was granted or taken over only %v before", uid, age)
		}
		if _, ok := r.created[uid]; !ok {
			continue
		}
		if at, ok := r.deleted[uid]; !ok || at > line.NS+int64(r.options.Lag) {
			r.breach(ruleEndAbsent, line, "%s is stored and was not deleted by then", uid)
		}
	}
}

// checkFences holds every grant to the fences after it: until its pod is seen or its reservation has
// ended in the epoch that holds it, the next epoch takes it over. A fence may leave out what was stored
// before it, as the barrier shows that.
func (r *replay) checkFences() {
	var terms []*term
	held := map[uint64]map[string]bool{}
	for _, t := range r.terms {
		terms = append(terms, t)
		held[t.epoch] = map[string]bool{}
		for _, uid := range t.fence.UIDs {
			held[t.epoch][uid] = true
		}
	}
	sort.Slice(terms, func(i, j int) bool { return terms[i].epoch < terms[j].epoch })
	type at struct {
		uid   string
		epoch uint64
	}
	done := map[at]bool{}
	for _, grant := range r.grants {
		i := sort.Search(len(terms), func(i int) bool { return terms[i].epoch > grant.Epoch })
		for _, uid := range grant.UIDs {
			epoch := grant.Epoch
			for _, next := range terms[i:] {
				if done[at{uid, epoch}] || r.released(uid, epoch, next.fence.NS) {
					break
				}
				if !held[next.epoch][uid] && r.left(grant, uid, next) {
					break
				}
				done[at{uid, epoch}] = true
				epoch = next.epoch
			}
		}
	}
}

// left judges a grant that the fence of next does not hold, and returns whether nobody need hold it
// from there on.
func (r *replay) left(grant Line, uid string, next *term) bool {
	if at, ok := r.created[uid]; ok && at < next.fence.NS {
		return true
	}
	if r.released(uid, next.epoch, next.fence.NS) {
		return true // seen between the read and the fence
	}
	if r.options.JournalLost {
		if next.barrier == 0 {
			return false // it never led; who comes after it has to wait
		}
		if next.barrier-next.fence.NS >= int64(r.options.TTL-r.options.Slack) {
			return true
		}
	}
	if grant.NS > next.fence.NS {
		r.breach(rulePastFence, grant, "the fence of epoch %d does not hold %s", next.epoch, uid)
		return true
	}
	r.breach(ruleFenceKeeps, next.fence, "%s was granted in epoch %d at %d", uid, grant.Epoch,
		grant.NS)
	return true
}

func (r *replay) released(uid string, epoch uint64, before int64) bool {
	for _, one := range r.releases[uid] {
		if one.epoch == epoch && one.ns < before {
			return true
		}
	}
	return false
}

// takenOver says whether a fence before that time holds the reservation.
func (r *replay) takenOver(uid string, before int64) bool {
	for _, t := range r.terms {
		if t.fence.NS <= before && slices.Contains(t.fence.UIDs, uid) {
			return true
		}
	}
	return false
}

func (r *replay) checkCreated(lines []Line) {
	if r.options.Ungranted {
		return
	}
	for _, line := range lines {
		if line.Event != "created" {
			continue
		}
		for _, uid := range line.UIDs {
			// A reservation that was taken over is answered again without another write: the API
			// server asks again when the first leader was killed before his answer.
			if at, ok := r.granted[uid]; (!ok || at > line.NS+int64(r.options.Slack)) &&
				!r.takenOver(uid, line.NS+int64(r.options.Slack)) {
				r.breach(ruleCreated, line, "nobody had granted %s", uid)
			}
		}
	}
}

func sameUIDs(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
