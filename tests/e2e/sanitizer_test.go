package e2e

import (
	"os"
	"regexp"
	"testing"
)

// sanitizerOptions make a build with sanitizers report what it can see; other builds ignore them.
// Nothing is suppressed, not even in libraries.
func sanitizerOptions() []string {
	return []string{
		"ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
		"UBSAN_OPTIONS=print_stacktrace=1",
		"TSAN_OPTIONS=second_deadlock_stack=1",
	}
}

// UBSan alone does not name itself.
var sanitizerReport = regexp.MustCompile(`(?m)^.*(?:(?:ERROR|WARNING): \w+Sanitizer|: runtime error: ).*$`)

// firstSanitizerReport gives the first report in a log, with what follows it, or "".
func firstSanitizerReport(log []byte) string {
	at := sanitizerReport.FindIndex(log)
	if at == nil {
		return ""
	}
	return string(log[at[0]:min(len(log), at[0]+6000)])
}

// checkSanitizers fails the test when a sanitizer said something in the program's log.
func (p *program) checkSanitizers() {
	p.Helper()
	log, err := os.ReadFile(p.logFile())
	if err != nil {
		p.Error(err)
	}
	if report := firstSanitizerReport(log); report != "" {
		p.Errorf("a sanitizer complains: %s", report)
	}
}

func TestSanitizerReports(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"info x\n==8148==ERROR: AddressSanitizer: stack-buffer-underflow on address 0x7f\n":       true,
		"info x\n==9==ERROR: LeakSanitizer: detected memory leaks\n":                              true,
		"WARNING: ThreadSanitizer: data race (pid=9)\n":                                           true,
		"a.c:3:5: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented\n": true,
		"": false,
		"2026-01-01T00:00:00Z error a watch failed problem=\"a runtime error\"\n": false,
	} {
		if have := firstSanitizerReport([]byte(text)) != ""; have != want {
			t.Errorf("%q: found %v, want %v", text, have, want)
		}
	}
}
