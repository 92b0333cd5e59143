package controlplane

import "regexp"

// SanitizerOptions make a build with sanitizers report what it can see; other builds ignore them.
// Nothing is suppressed, not even in libraries.
func SanitizerOptions() []string {
	return []string{
		"ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
		"UBSAN_OPTIONS=print_stacktrace=1",
		"TSAN_OPTIONS=second_deadlock_stack=1",
	}
}

// UBSan alone does not name itself.
var sanitizerReport = regexp.MustCompile(`(?m)^.*(?:(?:ERROR|WARNING): \w+Sanitizer|: runtime error: ).*$`)

// FirstSanitizerReport gives the first report in a log, with what follows it, or "".
func FirstSanitizerReport(log []byte) string {
	at := sanitizerReport.FindIndex(log)
	if at == nil {
		return ""
	}
	return string(log[at[0]:min(len(log), at[0]+6000)])
}
