package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	nic = tcpip.NICID(1)
	// Handshakes that may wait to be accepted.
	backlog = 16384
	// Bytes that are read together.
	readAtOnce = 4 << 10
	// Bytes of the queue of datagrams.
	datagramBytes = 4 << 20
)

// counts is what the server has done; every field is added to by many goroutines.
type counts struct {
	accepted, open, reset, refused, requests, answers, bytesIn, bytesOut atomic.Int64
}

type server struct {
	options  *options
	done     counts
	answers  []byte
	listener *gonet.TCPListener
	socket   *gonet.UDPConn
}

func (server *server) counts() *counts { return &server.done }

// newServer makes a stack with the addresses on the interface, and listens.
func newServer(options *options) (*server, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	sack := tcpip.TCPSACKEnabled(true)
	delay := tcpip.TCPDelayEnabled(false)
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &delay, &moderate} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return nil, fmt.Errorf("netstack refuses an option of TCP: %s", err)
		}
	}
	link, err := openLink(options.tap)
	if err != nil {
		return nil, err
	}
	if err := s.CreateNIC(nic, link); err != nil {
		return nil, fmt.Errorf("netstack takes no interface %s: %s", options.tap, err)
	}
	if err := configure(s, options); err != nil {
		return nil, err
	}
	copies := max(1, together/len(options.answer))
	server := &server{options: options, answers: bytes.Repeat(options.answer, copies)}
	return server, server.listen(s)
}

// openLink opens the TAP interface, makes it when it is not there, and sets it up.
func openLink(name string) (stack.LinkEndpoint, error) {
	fd, err := tun.OpenTAP(name)
	if err != nil {
		return nil, fmt.Errorf("cannot open tap:%s: %w; run this as root, or make the interface with ip tuntap add dev %s mode tap user NAME", name, err, name)
	}
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(control)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("`%s` is no name of an interface: %w", name, err)
	}
	if err := unix.IoctlIfreq(control, unix.SIOCGIFFLAGS, request); err != nil {
		return nil, fmt.Errorf("cannot ask for the state of tap:%s: %w", name, err)
	}
	if flags := request.Uint16(); flags&unix.IFF_UP == 0 {
		request.SetUint16(flags | unix.IFF_UP)
		if err := unix.IoctlIfreq(control, unix.SIOCSIFFLAGS, request); err != nil {
			return nil, fmt.Errorf("cannot set tap:%s up: %w; as root run ip link set %s up", name, err, name)
		}
	}
	if err := unix.IoctlIfreq(control, unix.SIOCGIFMTU, request); err != nil {
		return nil, fmt.Errorf("cannot ask for the MTU of tap:%s: %w", name, err)
	}
	return fdbased.New(&fdbased.Options{
		FDs:            []int{fd},
		MTU:            request.Uint32(),
		EthernetHeader: true,
		Address:        addressOf(name),
		// The interface is opened without the header in which checksums could be left to the kernel, so both sides make and look at them.
		PacketDispatchMode: fdbased.Readv,
	})
}

// addressOf makes a locally administered address that is the same each time.
func addressOf(name string) tcpip.LinkAddress {
	hash := fnv.New64a()
	hash.Write([]byte("netstack " + name))
	sum := hash.Sum(nil)
	return tcpip.LinkAddress(append([]byte{2}, sum[:5]...))
}

func configure(s *stack.Stack, options *options) error {
	var routes []tcpip.Route
	for _, prefix := range options.addresses {
		protocol := header.IPv6ProtocolNumber
		if prefix.Addr().Is4() {
			protocol = header.IPv4ProtocolNumber
		}
		address := tcpip.AddressWithPrefix{Address: tcpip.AddrFromSlice(prefix.Addr().AsSlice()), PrefixLen: prefix.Bits()}
		if err := s.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: protocol, AddressWithPrefix: address}, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("netstack refuses the address %s: %s", prefix, err)
		}
		routes = append(routes, tcpip.Route{Destination: address.Subnet(), NIC: nic})
	}
	for _, gateway := range options.gateways {
		everywhere := header.IPv6EmptySubnet
		if gateway.Is4() {
			everywhere = header.IPv4EmptySubnet
		}
		routes = append(routes, tcpip.Route{Destination: everywhere, Gateway: tcpip.AddrFromSlice(gateway.AsSlice()), NIC: nic})
	}
	s.SetRouteTable(routes)
	return nil
}

// listen opens a listener and a socket; the IPv6 wildcard takes IPv4 too.
func (server *server) listen(s *stack.Stack) error {
	local := tcpip.FullAddress{NIC: nic, Port: server.options.port}
	queue := new(waiter.Queue)
	endpoint, fault := s.NewEndpoint(tcp.ProtocolNumber, ipv6.ProtocolNumber, queue)
	if fault == nil {
		fault = endpoint.Bind(local)
	}
	if fault == nil {
		fault = endpoint.Listen(backlog)
	}
	if fault != nil {
		return fmt.Errorf("netstack cannot listen on port %d: %s", server.options.port, fault)
	}
	server.listener = gonet.NewTCPListener(s, queue, endpoint)
	socket, err := gonet.DialUDP(s, &local, nil, ipv6.ProtocolNumber)
	if err != nil {
		return fmt.Errorf("netstack cannot bind UDP port %d: %w", server.options.port, err)
	}
	server.socket = socket
	return nil
}

// serve answers from now on, a goroutine for each connection as programs with netstack do.
func (server *server) serve() {
	go server.accept()
	go server.answerDatagrams()
}

func (server *server) accept() {
	for {
		conn, err := server.listener.Accept()
		if err != nil {
			return
		}
		if server.done.open.Load() >= int64(server.options.connections) {
			server.done.refused.Add(1)
			conn.Close()
			continue
		}
		server.done.accepted.Add(1)
		server.done.open.Add(1)
		go server.answer(conn)
	}
}

func (server *server) answer(conn net.Conn) {
	err := server.talk(conn)
	if !errors.Is(err, io.EOF) {
		server.done.reset.Add(1)
	}
	conn.Close()
	server.done.open.Add(-1)
}

func (server *server) talk(conn net.Conn) error {
	buffer := make([]byte, readAtOnce)
	partial := 0
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		ended := server.options.requests(&partial, buffer[:n])
		server.done.bytesIn.Add(int64(n))
		server.done.requests.Add(int64(ended))
		if server.options.burst {
			continue
		}
		server.done.answers.Add(int64(ended))
		for owed := ended * len(server.options.answer); owed > 0; {
			sent, err := conn.Write(server.answers[:min(owed, len(server.answers))])
			server.done.bytesOut.Add(int64(sent))
			if err != nil {
				return err
			}
			owed -= sent
		}
	}
}

func (server *server) answerDatagrams() {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := server.socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		server.done.requests.Add(1)
		server.done.bytesIn.Add(int64(n))
		if server.options.burst {
			continue
		}
		if sent, err := server.socket.WriteTo(server.options.answer, from); err == nil {
			server.done.answers.Add(1)
			server.done.bytesOut.Add(int64(sent))
		}
	}
}
