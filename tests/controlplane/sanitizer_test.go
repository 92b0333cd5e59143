package controlplane

import "testing"

func TestSanitizerReports(t *testing.T) {
	for text, want := range map[string]bool{
		"info x\n==8148==ERROR: AddressSanitizer: stack-buffer-underflow on address 0x7f\n":       true,
		"info x\n==9==ERROR: LeakSanitizer: detected memory leaks\n":                              true,
		"WARNING: ThreadSanitizer: data race (pid=9)\n":                                           true,
		"a.c:3:5: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented\n": true,
		"": false,
		"2026-01-01T00:00:00Z error a watch failed problem=\"a runtime error\"\n": false,
	} {
		if have := FirstSanitizerReport([]byte(text)) != ""; have != want {
			t.Errorf("%q: found %v, want %v", text, have, want)
		}
	}
}
