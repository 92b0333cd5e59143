// Command replay holds traces of the program to the guards of the journal's model.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"gpuquota.io/tests/trace"
)

const usage = `Usage: replay [--ttl DURATION] [--ungranted] FILE…

Each FILE is what a program wrote to the file that GPUQUOTA_TRACE named, or "created" and "deleted"
lines in the same format by who watched the API server. Exit 0 if the model allows them all, 1 if not,
2 for files that can't be read.

`

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	ttl := flag.Duration("ttl", 60*time.Second, "--reservation-ttl of the program")
	ungranted := flag.Bool("ungranted", false, "pods may have been stored without asking the program")
	lost := flag.Bool("journal-lost", false, "the journal was deleted or spoilt meanwhile")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	lines, err := trace.ReadFiles(flag.Args()...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
	breaches := trace.Replay(lines, trace.Options{
		TTL: *ttl, Ungranted: *ungranted, JournalLost: *lost,
	})
	for _, breach := range breaches {
		fmt.Println(breach)
	}
	counts := map[string]int{}
	for _, line := range lines {
		counts[line.Event]++
	}
	fmt.Printf("%d lines: %d fences, %d writes, %d grants, %d seen, %d ended; %d breaches\n", len(lines),
		counts["fence"], counts["write"], counts["grant"], counts["seen"], counts["end"], len(breaches))
	if counts["created"] == 0 {
		fmt.Println("nobody watched the API server: a fence may lack pods that its leader had already seen")
	}
	if len(breaches) > 0 {
		os.Exit(1)
	}
}
