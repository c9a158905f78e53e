package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// versions tells what is inside, as the module's own record has it.
func versions() string {
	netstack := "gvisor.dev/gvisor"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == netstack {
				return fmt.Sprintf("netstack %s, %s", strings.TrimPrefix(module.Version, "v"), runtime.Version())
			}
		}
	}
	return "netstack, " + runtime.Version()
}

func coreCount(options *options) int {
	if len(options.cores) > 0 {
		return len(options.cores)
	}
	return runtime.GOMAXPROCS(0)
}

func sayReady(options *options) {
	var addresses []string
	for _, prefix := range options.addresses {
		addresses = append(addresses, prefix.String())
	}
	if !options.json {
		fmt.Printf("Answering at %s, port %d, over %s on tap:%s\n", strings.Join(addresses, " "), options.port, versions(), options.tap)
		return
	}
	sayJSON(map[string]any{
		"event": "ready", "over": "netstack", "version": versions(), "addresses": addresses, "port": options.port, "cores": coreCount(options),
	})
}

func sayJSON(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return err
}

// measure is where the counters stood when requests began to be answered.
type measure struct {
	at     time.Time
	cpu    time.Duration
	cycles uint64
}

func begin() measure {
	return measure{at: time.Now(), cpu: cpuTime(), cycles: cycles()}
}

// cpuTime is the processor time of all threads.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func saySummary(options *options, done *counts, from measure) error {
	seconds := time.Since(from.at).Seconds()
	busy := (cpuTime() - from.cpu).Seconds()
	share := busy / seconds / float64(coreCount(options))
	requests := done.requests.Load()
	var cost map[string]any
	if requests > 0 {
		perCycle := float64(cycles()-from.cycles) / seconds
		cost = map[string]any{"busy_ns": busy * 1e9 / float64(requests), "cycles": busy * perCycle / float64(requests)}
	}
	if options.json {
		return sayJSON(map[string]any{
			"event": "summary", "over": "netstack", "version": versions(), "seconds": seconds, "accepted": done.accepted.Load(),
			"open": done.open.Load(), "reset_connections": done.reset.Load(), "refused_connections": done.refused.Load(),
			"requests": requests, "answers": done.answers.Load(), "bytes_in": done.bytesIn.Load(), "bytes_out": done.bytesOut.Load(),
			"busy_share": share, "per_request": cost,
		})
	}
	fmt.Printf("\n%d requests and %d answers on %d connections in %.1f s\n", requests, done.answers.Load(), done.accepted.Load(), seconds)
	if reset, refused := done.reset.Load(), done.refused.Load(); reset+refused > 0 {
		fmt.Printf("%d connections reset, %d refused\n", reset, refused)
	}
	if cost != nil {
		fmt.Printf("busy %.1f %% of the time: %.0f ns or %.0f cycles a request\n", share*100, cost["busy_ns"], cost["cycles"])
	}
	return nil
}
