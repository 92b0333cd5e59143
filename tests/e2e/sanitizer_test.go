package e2e

import (
	"os"

	"gpuquota.io/tests/controlplane"
)

// checkSanitizers fails the test when a sanitizer said something in the program's log.
func (p *program) checkSanitizers() {
	p.Helper()
	log, err := os.ReadFile(p.logFile())
	if err != nil {
		p.Error(err)
	}
	if report := controlplane.FirstSanitizerReport(log); report != "" {
		p.Errorf("a sanitizer complains: %s", report)
	}
}
