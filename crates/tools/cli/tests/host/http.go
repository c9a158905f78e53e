// A server and a client of net/http, which compare what they send and get, while memory is collected without pause.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func body(length int) []byte {
	return bytes.Repeat([]byte("0123456789abcdef"), length/16)
}

func serve(address string) {
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		var length int
		fmt.Sscan(request.URL.Query().Get("n"), &length)
		answer.Write(body(length))
	})
	// Whoever reads the line connects, so it is said behind listen.
	listener, err := net.Listen("tcp", address)
	if err == nil {
		fmt.Println("serving")
		err = http.Serve(listener, nil)
	}
	fmt.Println(err)
	os.Exit(1)
}

func get(client *http.Client, address string, length int) error {
	answer, err := client.Get(fmt.Sprintf("http://%s/?n=%d", address, length))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err == nil && !bytes.Equal(got, body(length)) {
		err = fmt.Errorf("other bytes than the %d expected", length)
	}
	return err
}

func main() {
	go func() {
		for {
			runtime.GC()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	var requests, connections int
	fmt.Sscan(os.Args[3], &requests)
	fmt.Sscan(os.Args[4], &connections)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	left, wrong := int64(requests), int64(0)
	var all sync.WaitGroup
	for each := 0; each < connections; each++ {
		all.Add(1)
		go func(each int) {
			defer all.Done()
			for at := 0; atomic.AddInt64(&left, -1) >= 0; at++ {
				if err := get(client, os.Args[2], (each*37+at*101)%200*16); err != nil {
					atomic.AddInt64(&wrong, 1)
					fmt.Println(err)
				}
			}
		}(each)
	}
	all.Wait()
	fmt.Printf("%d requests, %d of them wrong\n", requests, wrong)
}
