package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What a client is told about a create.
const (
	allowed     = "allowed"
	denied      = "denied"
	ownRefusal  = "refused by the test"
	conflict    = "409"
	throttled   = "429"
	unavailable = "5xx"
	unreachable = "no connection"
	hung        = "hung"
	strange     = "other"
)

// bad are the answers that no user may see while nothing is wrong.
var bad = []string{conflict, throttled, unavailable, unreachable, hung, strange}

func classify(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return allowed
	case errors.Is(err, context.DeadlineExceeded):
		return hung
	case !errors.As(err, &status):
		return unreachable
	}
	switch code := status.Status().Code; {
	case code == http.StatusForbidden && strings.Contains(err.Error(), refusal):
		return ownRefusal
	case code == http.StatusForbidden:
		return denied
	case code == http.StatusConflict:
		return conflict
	case code == http.StatusTooManyRequests:
		return throttled
	case code >= 500:
		return unavailable
	}
	return strange
}

// answer is what one request met, in times of the run.
type answer struct {
	begin, end time.Time
	class      string
	text       string
}

// answers are all of them. Denials keep no text.
type answers struct {
	mu  sync.Mutex
	all []answer
}

func (a *answers) add(begin time.Time, err error) string {
	class := classify(err)
	ret := answer{begin: begin, end: time.Now(), class: class}
	if slices.Contains(bad, class) {
		ret.text = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, ret)
	return class
}

// window is the time of a fault, from its begin until what it broke works again.
type window struct {
	name       string
	begin, end time.Time
	// excused: clients may see errors in it.
	excused bool
}

// phaseOf names the time of an answer, and says whether it may be an error.
func phaseOf(a answer, windows []window) (string, bool) {
	name := "quiet"
	for _, w := range windows {
		if a.end.Before(w.begin) || a.begin.After(w.end) {
			continue
		}
		if w.excused {
			return w.name, true
		}
		name = w.name
	}
	return name, false
}

// checkAnswers fails for errors that nothing excuses.
func (w *world) checkAnswers(a *answers, windows []window) {
	w.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	unexcused := 0
	for _, answer := range a.all {
		name, excused := phaseOf(answer, windows)
		if !slices.Contains(bad, answer.class) || excused && answer.class != hung && answer.class != strange {
			continue
		}
		if unexcused++; unexcused <= 20 {
			w.Errorf("%.1f s to %.1f s, %s: a client was told %s: %s", answer.begin.Sub(w.begin).Seconds(),
				answer.end.Sub(w.begin).Seconds(), name, answer.class, answer.text)
		}
	}
	if unexcused > 20 {
		w.Errorf("and %d more such answers", unexcused-20)
	}
}

// printAnswers prints what clients were told in each phase.
func (w *world) printAnswers(a *answers, windows []window) {
	w.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	type row struct {
		counts  map[string]int
		longest time.Duration
	}
	rows := map[string]*row{}
	examples := map[string]string{}
	order := []string{"quiet"}
	for _, window := range windows {
		if !slices.Contains(order, window.name) {
			order = append(order, window.name)
		}
	}
	for _, answer := range a.all {
		name, _ := phaseOf(answer, windows)
		r := rows[name]
		if r == nil {
			r = &row{counts: map[string]int{}}
			rows[name] = r
		}
		r.counts[answer.class]++
		r.longest = max(r.longest, answer.end.Sub(answer.begin))
		if slices.Contains(bad, answer.class) {
			examples[name+": "+answer.class] = answer.text
		}
	}
	classes := []string{allowed, denied, ownRefusal, conflict, throttled, unavailable, unreachable, hung, strange}
	var b strings.Builder
	fmt.Fprintf(&b, "what clients were told\n%-38s", "")
	for _, class := range classes {
		fmt.Fprintf(&b, " %13.13s", class)
	}
	fmt.Fprintf(&b, " %9s", "longest")
	for _, name := range order {
		r := rows[name]
		if r == nil {
			continue
		}
		fmt.Fprintf(&b, "\n%-38s", name)
		for _, class := range classes {
			fmt.Fprintf(&b, " %13d", r.counts[class])
		}
		fmt.Fprintf(&b, " %7.2f s", r.longest.Seconds())
	}
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		fmt.Fprintf(&b, "\nsuch as %s: %s", name, examples[name])
	}
	w.logf("%s", b.String())
}
