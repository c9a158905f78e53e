package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// Bounds of what can be said on the command line.
const (
	maxAnswer = 16 << 20
	// Bytes of answers that are handed over together.
	together = 64 << 10
	maxCore  = 1023
)

// Where a request ends.
type framing int

const (
	fixed framing = iota
	emptyLine
	whatever
)

type options struct {
	tap         string
	addresses   []netip.Prefix
	gateways    []netip.Addr
	port        uint16
	answer      []byte
	framing     framing
	requestLen  int
	burst       bool
	cores       []int
	connections int
	time        time.Duration
	json        bool
}

const usage = `Answers requests with gVisor's netstack over a TAP interface: the requests of ` + "`clearway bench client`" + `.

Usage: netstack --port tap:NAME -a ADDR/LEN [OPTIONS]

      --port PORT           the port of the stack: tap:NAME; it is made when it is not there
  -a, --address ADDR/LEN    an address to answer at; may be repeated
      --gateway ADDR        the router for everything that is not on the link; one for IPv4 and one for IPv6
  -p, --server-port PORT    the port to listen on, for TCP and UDP [default: 10000]
  -l, --length BYTES        answer with so many bytes; requests have as many unless --request says otherwise [default: 64]
  -m, --message TEXT        answer with this text; \r \n \t \0 \\ and \xNN stand for bytes
      --request WHERE       where a request ends: after so many BYTES; with an empty line (http); or whatever arrives together is one (any)
  -g, --pattern PATTERN     answer each request, or only count: ping-pong (or 1), burst (or 2) [default: ping-pong]
      --cores LIST          cores to run on, such as 0 or 0,1 or 0-3 [default: all]
      --connections NUMBER  connections at a time [default: 1048576]
  -t, --time SECONDS        stop after so many seconds
      --json                print figures as JSON, an object per line
      --poll                has no meaning here: Go's scheduler decides when to sleep
  -h, --help                print this
  -V, --version             print the versions of what is inside
`

// each adds what a repeated option says.
type each func(string) error

func (add each) Set(text string) error { return add(text) }
func (each) String() string            { return "" }

// readOptions reads the command line; both results are nil when it asked for a text that was printed.
func readOptions(args []string) (*options, error) {
	options := &options{port: 10000, connections: 1 << 20}
	var length uint64 = 64
	var message, request string
	var hasMessage, version bool
	flags := flag.NewFlagSet("netstack", flag.ContinueOnError)
	flags.SetOutput(new(bytes.Buffer))
	both := func(short, long string, set each) {
		flags.Var(set, short, "")
		flags.Var(set, long, "")
	}
	flags.Var(each(func(text string) error {
		name, isTap := strings.CutPrefix(text, "tap:")
		options.tap, _, _ = strings.Cut(name, ",")
		if !isTap || options.tap == "" || options.tap != name {
			return errors.New("netstack runs over tap:NAME here, without options")
		}
		return nil
	}), "port", "")
	both("a", "address", func(text string) error {
		prefix, err := netip.ParsePrefix(text)
		options.addresses = append(options.addresses, prefix)
		return err
	})
	flags.Var(each(func(text string) error {
		gateway, err := netip.ParseAddr(text)
		options.gateways = append(options.gateways, gateway)
		return err
	}), "gateway", "")
	both("p", "server-port", func(text string) error {
		port, err := strconv.ParseUint(text, 10, 16)
		options.port = uint16(port)
		if err == nil && port == 0 {
			err = errors.New("a port is from 1 to 65535")
		}
		return err
	})
	both("l", "length", func(text string) (err error) {
		length, err = size(text, maxAnswer)
		return err
	})
	both("m", "message", func(text string) error {
		message, hasMessage = text, true
		return nil
	})
	flags.StringVar(&request, "request", "", "")
	both("g", "pattern", func(text string) error {
		options.burst = text == "burst" || text == "2"
		if !options.burst && text != "ping-pong" && text != "1" {
			return errors.New("write ping-pong or burst")
		}
		return nil
	})
	flags.Var(each(func(text string) (err error) {
		options.cores, err = coreList(text)
		return err
	}), "cores", "")
	flags.IntVar(&options.connections, "connections", options.connections, "")
	both("t", "time", func(text string) error {
		seconds, err := strconv.ParseFloat(text, 64)
		if err == nil && !(seconds > 0 && seconds < 1e9) {
			err = errors.New("write a number of seconds")
		}
		options.time = time.Duration(seconds * float64(time.Second))
		return err
	})
	flags.BoolVar(&options.json, "json", false, "")
	flags.Bool("poll", false, "")
	flags.BoolVar(&version, "V", false, "")
	flags.BoolVar(&version, "version", false, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(os.Stdout, usage)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if version {
		fmt.Printf("netstack: %s\n", versions())
		return nil, nil
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("`%s` is no option; --help tells which there are", flags.Arg(0))
	}
	if options.tap == "" {
		return nil, errors.New("there is no port: give --port tap:NAME")
	}
	if len(options.addresses) == 0 {
		return nil, errors.New("there is no address: give -a, such as -a 10.0.0.2/24")
	}
	if options.connections < 1 {
		return nil, errors.New("--connections is at least 1")
	}
	return options, options.choose(length, message, hasMessage, request)
}

// choose says what is answered, and where a request ends.
func (options *options) choose(length uint64, message string, hasMessage bool, request string) error {
	const filler = "The same bytes whichever stack sends them. "
	options.answer = []byte(strings.Repeat(filler, int(length)/len(filler)+1)[:length])
	if hasMessage {
		var err error
		if options.answer, err = unescape(message); err != nil {
			return err
		}
	}
	if len(options.answer) == 0 {
		return errors.New("a message has at least one byte: give another -m")
	}
	options.requestLen = len(options.answer)
	switch {
	case request == "http":
		options.framing = emptyLine
	case request == "any":
		options.framing = whatever
	case request != "":
		length, err := size(request, 1<<31)
		options.requestLen = int(length)
		return err
	case bytes.HasPrefix(options.answer, []byte("HTTP/")):
		options.framing = emptyLine
	case hasMessage:
		options.framing = whatever
	}
	return nil
}

// size reads a number of bytes with K or M behind it.
func size(text string, most uint64) (uint64, error) {
	digits, shift := text, 0
	switch {
	case strings.HasSuffix(text, "k"), strings.HasSuffix(text, "K"):
		digits, shift = text[:len(text)-1], 10
	case strings.HasSuffix(text, "M"):
		digits, shift = text[:len(text)-1], 20
	}
	number, err := strconv.ParseUint(digits, 10, 40)
	if err != nil || number == 0 || number<<shift > most {
		return 0, fmt.Errorf("`%s` is no number of bytes from 1 to %d, such as 64 or 4K", text, most)
	}
	return number << shift, nil
}

func coreList(text string) ([]int, error) {
	var cores []int
	for _, word := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(word, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to > maxCore {
			return nil, fmt.Errorf("`%s` is no list of cores: write one such as 0 or 0,1 or 0-3", text)
		}
		for core := from; core <= to; core++ {
			cores = append(cores, core)
		}
	}
	return cores, nil
}

// unescape makes the bytes that a text means.
func unescape(text string) ([]byte, error) {
	plain := map[byte]byte{'r': '\r', 'n': '\n', 't': '\t', '0': 0, '\\': '\\'}
	var out []byte
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			out = append(out, text[at])
			continue
		}
		at++
		if at < len(text) && text[at] == 'x' {
			if at+3 > len(text) {
				return nil, errors.New(`\x wants two hexadecimal digits, such as \x0a`)
			}
			number, err := strconv.ParseUint(text[at+1:at+3], 16, 8)
			if err != nil {
				return nil, errors.New(`\x wants two hexadecimal digits, such as \x0a`)
			}
			out = append(out, byte(number))
			at += 2
			continue
		}
		if at == len(text) {
			return nil, errors.New(`a backslash stands before r, n, t, 0, x or another backslash: write \\ for itself`)
		}
		meant, known := plain[text[at]]
		if !known {
			return nil, errors.New(`a backslash stands before r, n, t, 0, x or another backslash: write \\ for itself`)
		}
		out = append(out, meant)
	}
	return out, nil
}

// requests counts the requests that end in the next piece of a stream; partial is how far into one it is, zero at the beginning.
func (options *options) requests(partial *int, piece []byte) int {
	switch options.framing {
	case whatever:
		return 1
	case emptyLine:
		return emptyLines(partial, piece)
	}
	all := *partial + len(piece)
	*partial = all % options.requestLen
	return all / options.requestLen
}

// emptyLines counts them; partial is how much of \r\n\r\n was there at the end.
func emptyLines(partial *int, piece []byte) int {
	ended, seen := 0, *partial
	for _, b := range piece {
		switch {
		case b == '\r' && seen == 2:
			seen = 3
		case b == '\r':
			seen = 1
		case b == '\n' && (seen == 1 || seen == 3):
			seen++
		default:
			seen = 0
		}
		if seen == 4 {
			ended, seen = ended+1, 0
		}
	}
	*partial = seen
	return ended
}
