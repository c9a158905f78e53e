// A server and a client of net/http that go on for long, while memory is collected without pause and goroutines that never call anything are preempted by signals.
//
// chatter serve ADDRESS
// chatter get ADDRESS SECONDS CONNECTIONS: half of the connections are kept, the other half are made for one request each.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A request that takes so many seconds hangs: no busy machine takes so long.
const tooLong = 60

// Seconds that this process ran. While everything is stopped, as by the cgroup freezer, there are none.
var ran int64

// Requests under way: when each began, and how it is given up.
var underWay sync.Map

type pending struct {
	began  int64
	giveUp context.CancelFunc
}

func count() {
	for {
		time.Sleep(time.Second)
		now := atomic.AddInt64(&ran, 1)
		underWay.Range(func(_, each any) bool {
			if request := each.(*pending); now-request.began > tooLong {
				request.giveUp()
			}
			return true
		})
	}
}

func body(length int) []byte {
	return bytes.Repeat([]byte("0123456789abcdef"), length/16)
}

// Each goroutine of it holds its processor until a signal takes it away.
func spin() {
	for {
		sum := 0
		for at := 0; at < 30_000_000; at++ {
			sum += at ^ sum
		}
		atomic.StoreInt64(&spun, int64(sum))
		time.Sleep(100 * time.Millisecond)
	}
}

var spun int64

// What the process holds, as the kernel says.
func holds() string {
	status, _ := os.ReadFile("/proc/self/status")
	found := map[string]string{}
	for _, line := range strings.Split(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.TrimSuffix(strings.TrimSpace(value), " kB")
	}
	entries, _ := os.ReadDir("/proc/self/fd")
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return fmt.Sprintf("rss %s KiB, %s threads, %d descriptors, %d goroutines, %d collections",
		found["VmRSS"], found["Threads"], len(entries), runtime.NumGoroutine(), memory.NumGC)
}

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var served int64
	handler := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		length, _ := strconv.Atoi(request.URL.Query().Get("n"))
		came, err := io.ReadAll(request.Body)
		if err != nil || !bytes.Equal(came, body(len(came))) {
			http.Error(answer, "other bytes", http.StatusBadRequest)
			return
		}
		atomic.AddInt64(&served, 1)
		answer.Write(body(length))
	})
	server := &http.Server{Handler: handler}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		server.Shutdown(context.Background())
	}()
	go func() {
		for {
			time.Sleep(10 * time.Second)
			fmt.Printf("%d served: %s\n", atomic.LoadInt64(&served), holds())
		}
	}()
	fmt.Println("serving")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		fmt.Println(err)
		os.Exit(1)
	}
}

func ask(client *http.Client, address string, length int) error {
	until, giveUp := context.WithCancel(context.Background())
	request := &pending{atomic.LoadInt64(&ran), giveUp}
	underWay.Store(request, request)
	defer giveUp()
	defer underWay.Delete(request)
	url := fmt.Sprintf("http://%s/?n=%d", address, length)
	post, err := http.NewRequestWithContext(until, "POST", url, bytes.NewReader(body(length)))
	if err != nil {
		return err
	}
	answer, err := client.Do(post)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Equal(got, body(length))) {
		err = fmt.Errorf("%s, and other bytes than the %d expected", answer.Status, length)
	}
	return err
}

func get(address string, seconds, connections int) {
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var asked, wrong, slowest int64
	var all sync.WaitGroup
	for each := 0; each < connections; each++ {
		client := kept
		if each%2 == 1 {
			client = fresh
		}
		all.Add(1)
		go func(each int) {
			defer all.Done()
			for at := 0; atomic.LoadInt64(&ran) < int64(seconds); at++ {
				began := atomic.LoadInt64(&ran)
				if err := ask(client, address, (each*37+at*101)%4000*16); err != nil {
					atomic.AddInt64(&wrong, 1)
					fmt.Println(time.Now().Format("15:04:05"), err)
				}
				took := atomic.LoadInt64(&ran) - began
				for now := atomic.LoadInt64(&slowest); took > now && !atomic.CompareAndSwapInt64(&slowest, now, took); {
					now = atomic.LoadInt64(&slowest)
				}
				atomic.AddInt64(&asked, 1)
			}
		}(each)
	}
	go func() {
		for {
			time.Sleep(10 * time.Second)
			fmt.Printf("%d asked, slowest %d s: %s\n", atomic.LoadInt64(&asked), atomic.SwapInt64(&slowest, 0), holds())
		}
	}()
	all.Wait()
	fmt.Printf("%s\n%d requests, %d of them wrong\n", holds(), asked, wrong)
}

func main() {
	debug.SetGCPercent(5)
	runtime.GOMAXPROCS(4)
	go spin()
	go spin()
	go count()
	if os.Args[1] == "serve" {
		serve(os.Args[2])
		return
	}
	seconds, _ := strconv.Atoi(os.Args[3])
	connections, _ := strconv.Atoi(os.Args[4])
	get(os.Args[2], seconds, connections)
}
