// Answers requests with gVisor's netstack over a TAP interface: the requests of `clearway bench client`, with the arguments of `clearway bench server`.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Heap that may be new before it is looked through, in percent of what is in use: few and short pauses for the price of memory.
const gcPercent = 400

func main() {
	options, err := readOptions(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "netstack:", err)
		os.Exit(2)
	}
	if options == nil {
		return
	}
	if err := run(options); err != nil {
		fmt.Fprintln(os.Stderr, "netstack:", err)
		os.Exit(1)
	}
}

func run(options *options) error {
	debug.SetGCPercent(gcPercent)
	if len(options.cores) > 0 {
		if err := pin(options.cores); err != nil {
			return err
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	server, err := newServer(options)
	if err != nil {
		return err
	}
	measure := begin()
	sayReady(options)
	server.serve()
	var late <-chan time.Time
	if options.time > 0 {
		late = time.After(options.time)
	}
	select {
	case <-ended:
	case <-late:
	}
	return saySummary(options, server.counts(), measure)
}

// pin keeps all threads on the cores; those that are made later inherit it.
func pin(cores []int) error {
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	runtime.GOMAXPROCS(len(cores))
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		var id int
		if _, err := fmt.Sscan(task.Name(), &id); err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && err != unix.ESRCH {
			return fmt.Errorf("cannot run on the cores %v: %w; name others with --cores", cores, err)
		}
	}
	return nil
}
