// SPDX-License-Identifier: MIT

// The peer's side of the harness: --list, or measure one row and print a line of JSON.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const variant = "go"

// A row's function does ops operations; it gives 0 to be timed as a whole, or its own nanoseconds
// (CPU time is not reported then).
type row struct {
	name string
	unit string
	ops  int
	run  func(ops int) int64
}

func check(isTrue bool, what string) {
	if !isTrue {
		panic(what)
	}
}

func cpuTime() int64 {
	var now syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &now) == nil, "getrusage")
	return now.Utime.Nano() + now.Stime.Nano()
}

func peakKiB() string {
	status, _ := os.ReadFile("/proc/self/status")
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	return strings.Fields(text)[0]
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--list" {
		for _, row := range rows {
			fmt.Printf("{\"row\":%q,\"variant\":%q,\"unit\":%q,\"ops\":%d,\"workers\":1}\n",
				row.name, variant, row.unit, row.ops)
		}
		return
	}
	check(len(os.Args) == 5, "usage: --list | ROW VARIANT OPS WORKERS")
	ops, _ := strconv.Atoi(os.Args[3])
	workers, _ := strconv.Atoi(os.Args[4])
	runtime.GOMAXPROCS(workers)
	for _, row := range rows {
		if row.name != os.Args[1] {
			continue
		}
		if ops >= 10 {
			row.run(ops / 10)
		}
		before, start := cpuTime(), time.Now()
		wall, cpu := row.run(ops), int64(0)
		if wall == 0 {
			wall, cpu = time.Since(start).Nanoseconds(), cpuTime()-before
		}
		fmt.Printf("{\"row\":%q,\"variant\":%q,\"ops\":%d,\"wall_ns\":%d,\"cpu_ns\":%d,\"rss_kb\":%s}\n",
			row.name, variant, ops, wall, cpu, peakKiB())
		return
	}
	check(false, "no such row")
}
