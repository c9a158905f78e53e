//go:build !amd64

package main

import "time"

// cycles counts nanoseconds where there is no time stamp counter.
func cycles() uint64 { return uint64(time.Now().UnixNano()) }
