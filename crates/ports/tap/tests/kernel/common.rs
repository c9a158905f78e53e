//! A network namespace of the test's own, an interface in it, and just enough of a peer to talk to
//! the kernel by hand.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clearway_dev::{Facts, FramePool, PoolBudget, Receive, TapMode, TapSpec, Transmit};
use clearway_pkt::{Buf, Burst, Piece, RxMeta, Segmentation, TxMeta};
use clearway_tap::{TapQueue, open};
use clearway_wire::tcp::{self, Segment};
use clearway_wire::{Addr, EtherType, Flags, Mac, Proto, Seq, TcpOptions, eth, ipv4, ipv6, udp};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

/// Longer than anything here takes even on a busy machine; only a failed test waits for it.
const TIME_LIMIT_MS: u16 = 20_000;

/// One test at a time: a program that one test starts holds the descriptors of all others until it
/// runs, and with them their sockets and interfaces.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Moves this thread, and those that it starts, into a fresh network namespace, which is gone with
/// the last of them. The test's turn lasts as long as the returned value.
pub(crate) fn enter_namespace() -> MutexGuard<'static, ()> {
    // Another test that failed in its turn has nothing to do with this one.
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        panic!(
            "these tests talk to the kernel in a network namespace of their own, which needs root \
             ({error}): run them as root"
        );
    }
    ip("link set lo up");
    turn
}

/// Runs `ip` in this thread's namespace.
pub(crate) fn ip(args: &str) {
    said_by_ip(args);
}

/// The same, and what it prints.
pub(crate) fn said_by_ip(args: &str) -> String {
    let output = Command::new("ip")
        .args(args.split_whitespace())
        .output()
        .expect("the program `ip` (package iproute2)");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn pool() -> FramePool {
    FramePool::new(PoolBudget::of_bytes(4 << 20))
}

/// One of the two families, with the addresses of both ends.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    pub(crate) ours: Addr,
    pub(crate) kernels: Addr,
}

pub(crate) fn v4() -> Family {
    Family { ours: Addr::v4([10, 77, 0, 2]), kernels: Addr::v4([10, 77, 0, 1]) }
}

pub(crate) fn v6() -> Family {
    Family { ours: "fd77::2".parse().unwrap(), kernels: "fd77::1".parse().unwrap() }
}

impl Family {
    pub(crate) fn kernel_socket(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.kernels.into(), port)
    }

    pub(crate) fn our_socket(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ours.into(), port)
    }
}

/// Our end of a link to the kernel.
pub(crate) struct Link {
    pub(crate) dev: TapQueue,
    pub(crate) kernel_mac: Mac,
    waiting: Burst<clearway_pkt::PoolBuf>,
    next: usize,
}

impl Link {
    /// A link in this thread's namespace, addressed at the kernel's side, which knows our Ethernet
    /// address already.
    pub(crate) fn new(spec: &TapSpec) -> Link {
        let queue = open(spec).unwrap().pop().unwrap();
        let link = Link::around(queue.into_queue(pool()), spec);
        link.introduce();
        link
    }

    pub(crate) fn around(dev: TapQueue, spec: &TapSpec) -> Link {
        let name = &spec.name;
        ip(&format!("addr add 10.77.0.1/24 dev {name}"));
        ip(&format!("addr add fd77::1/64 dev {name} nodad"));
        clearway_tap::bring_up(name).unwrap();
        wait_for_ipv6(name);
        let kernel_mac = if spec.mode == TapMode::Tap { mac_of(name) } else { Mac::ZERO };
        Link { dev, kernel_mac, waiting: Burst::new(), next: 0 }
    }

    /// Writes our address into the kernel's neighbour table.
    pub(crate) fn introduce(&self) {
        if let Some(mac) = self.dev.mac() {
            for family in [v4(), v6()] {
                ip(&format!(
                    "neigh replace {} lladdr {mac} nud permanent dev {}",
                    family.ours,
                    self.dev.name()
                ));
            }
        }
    }

    pub(crate) fn ethernet(&self) -> bool {
        self.dev.mac().is_some()
    }

    /// Bytes before the IP header.
    pub(crate) fn link_len(&self) -> usize {
        if self.ethernet() { eth::HEADER_LEN } else { 0 }
    }

    /// Sends `frame` as it is.
    pub(crate) fn send(&mut self, frame: &[u8], meta: TxMeta) {
        let before = self.dev.counters().tx_packets;
        let room = self.dev.reserve(frame.len()).expect("room");
        room[..frame.len()].copy_from_slice(frame);
        self.dev.commit(frame.len(), meta);
        self.dev.flush();
        let after = self.dev.counters();
        assert_eq!(after.tx_packets, before + 1, "the frame was not taken: {after:?}");
    }

    /// The same, and all but the first `head` bytes are handed over in pieces of `piece` bytes.
    pub(crate) fn send_gathered(&mut self, frame: &[u8], meta: TxMeta, head: usize, piece: usize) {
        assert!(self.dev.gathers());
        let before = self.dev.counters();
        let room = self.dev.reserve(frame.len()).expect("room");
        room[..head].copy_from_slice(&frame[..head]);
        let body: Vec<Piece<'_>> = frame[head..].chunks(piece).map(Piece::from).collect();
        self.dev.commit_gathered(head, &body, meta);
        self.dev.flush();
        let after = self.dev.counters();
        let sent = (after.tx_packets - before.tx_packets, after.tx_bytes - before.tx_bytes);
        assert_eq!(sent, (1, frame.len() as u64), "the frame was not taken: {after:?}");
    }

    /// A frame from us to the kernel around a transport header with data. Its IPv4 identification
    /// is that of an atomic packet.
    pub(crate) fn frame(&self, family: Family, proto: Proto, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + transport.len()];
        let mut at = 0;
        if let Some(mac) = self.dev.mac() {
            let kind = if family.ours.is_v4() { EtherType::IPV4 } else { EtherType::IPV6 };
            at += eth::emit(self.kernel_mac, mac, kind, &mut frame);
        }
        let payload_len = transport.len() as u16;
        let (src, dst) = (family.ours, family.kernels);
        at += if src.is_v4() {
            let header = ipv4::Header {
                src,
                dst,
                proto,
                tos: 0,
                ttl: 64,
                id: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                payload_len,
            };
            ipv4::emit(&header, &mut frame[at..])
        } else {
            let header = ipv6::Header {
                src,
                dst,
                next: proto,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: 64,
                payload_len,
            };
            ipv6::emit(&header, &mut frame[at..])
        };
        frame[at..at + transport.len()].copy_from_slice(transport);
        frame.truncate(at + transport.len());
        frame
    }

    /// The next received frame that `wanted` makes something of; others, such as the kernel's
    /// router solicitations, are passed over.
    pub(crate) fn expect<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&[u8], RxMeta) -> Option<T>,
    ) -> T {
        loop {
            while self.next < self.waiting.len() {
                let (frame, meta) = self.waiting.take(self.next).unwrap();
                self.next += 1;
                if let Some(found) = wanted(frame.bytes(), meta) {
                    return found;
                }
            }
            self.waiting.clear();
            self.next = 0;
            self.wait(what);
            self.dev.rx(&mut self.waiting).unwrap();
        }
    }

    /// Sleeps until the descriptor says that there is something to read.
    fn wait(&self, what: &str) {
        let mut fds = [PollFd::new(self.dev.wait_fd().unwrap(), PollFlags::POLLIN)];
        let ready = poll(&mut fds, PollTimeout::from(TIME_LIMIT_MS)).unwrap();
        assert_eq!(ready, 1, "{what} did not arrive: {:?}", self.dev.counters());
    }
}

/// IPv6 begins on an interface a little after it was brought up, when the kernel's link watcher has
/// seen it.
fn wait_for_ipv6(name: &str) {
    let deadline = Instant::now() + Duration::from_millis(TIME_LIMIT_MS.into());
    loop {
        let output = Command::new("ip")
            .args(["-6", "route", "show", "table", "local", "dev", name])
            .output()
            .unwrap();
        if String::from_utf8_lossy(&output.stdout).contains("fd77::1") {
            return;
        }
        assert!(Instant::now() < deadline, "IPv6 does not begin on {name}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn mac_of(name: &str) -> Mac {
    let output = Command::new("ip").args(["-o", "link", "show", "dev", name]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).unwrap().parse().unwrap()
}

/// What a device needs to finish the checksum, and to cut the frame.
pub(crate) fn offload(
    link: &Link,
    family: Family,
    header_len: usize,
    offset: u16,
    segmentation: Segmentation,
) -> TxMeta {
    let start = link.link_len() + if family.ours.is_v4() { 20 } else { 40 };
    TxMeta {
        checksum_start: start as u16,
        checksum_offset: offset,
        segmentation,
        header_len: (start + header_len) as u16,
        flow_hash: 0,
    }
}

/// A UDP datagram with its checksum left to the device.
pub(crate) fn datagram(family: Family, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_LEN + payload.len()];
    udp::emit(from, to, payload.len() as u16, &mut bytes);
    bytes[udp::HEADER_LEN..].copy_from_slice(payload);
    let len = bytes.len() as u32;
    udp::fill_partial_checksum(&family.ours, &family.kernels, len, &mut bytes);
    bytes
}

/// A connection that we hold by hand with a kernel socket.
pub(crate) struct Connection {
    pub(crate) family: Family,
    pub(crate) our_port: u16,
    pub(crate) kernel_port: u16,
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
}

impl Connection {
    /// Opens to a listening kernel socket; ours is the side that asks. `mss` is what we tell of
    /// ourselves.
    pub(crate) fn open(
        link: &mut Link,
        family: Family,
        our_port: u16,
        kernel_port: u16,
        mss: u16,
    ) -> Connection {
        let mut conn = Connection { family, our_port, kernel_port, seq: Seq(1000), ack: Seq(0) };
        let opts = TcpOptions { mss: Some(mss), wscale: Some(7), ..TcpOptions::NONE };
        conn.send(link, Flags::SYN, opts, &[], Segmentation::None);
        conn.seq += 1;
        let answer = conn
            .expect(link, "SYN-ACK", |segment, _, _| segment.flags.syn().then_some(segment.seq));
        conn.ack = answer + 1;
        conn.send(link, Flags::ACK, TcpOptions::NONE, &[], Segmentation::None);
        conn
    }

    /// Sends a segment, or a large one that is to be cut, with its checksum left to the device.
    pub(crate) fn send(
        &mut self,
        link: &mut Link,
        flags: Flags,
        opts: TcpOptions,
        payload: &[u8],
        cut: Segmentation,
    ) {
        let (frame, meta) = self.segment(link, flags, opts, payload, cut);
        link.send(&frame, meta);
    }

    /// Sends a segment whose payload is handed over in pieces of `piece` bytes.
    pub(crate) fn send_gathered(
        &mut self,
        link: &mut Link,
        payload: &[u8],
        cut: Segmentation,
        piece: usize,
    ) {
        let (frame, meta) =
            self.segment(link, Flags::ACK | Flags::PSH, TcpOptions::NONE, payload, cut);
        link.send_gathered(&frame, meta, frame.len() - payload.len(), piece);
    }

    fn segment(
        &self,
        link: &Link,
        flags: Flags,
        opts: TcpOptions,
        payload: &[u8],
        cut: Segmentation,
    ) -> (Vec<u8>, TxMeta) {
        let segment = Segment {
            src_port: self.our_port,
            dst_port: self.kernel_port,
            seq: self.seq,
            ack: self.ack,
            flags,
            wnd: 60_000,
            opts,
            ..Segment::default()
        };
        let mut bytes = vec![0; tcp::MAX_HEADER_LEN + payload.len()];
        let header_len = tcp::emit(&segment, &mut bytes);
        bytes[header_len..header_len + payload.len()].copy_from_slice(payload);
        bytes.truncate(header_len + payload.len());
        let len = bytes.len() as u32;
        tcp::fill_partial_checksum(&self.family.ours, &self.family.kernels, len, &mut bytes);
        let frame = link.frame(self.family, Proto::TCP, &bytes);
        let meta = offload(link, self.family, header_len, 16, cut);
        (frame, meta)
    }

    /// The next segment of this connection that `wanted` makes something of.
    pub(crate) fn expect<T>(
        &self,
        link: &mut Link,
        what: &str,
        mut wanted: impl FnMut(Segment, &[u8], RxMeta) -> Option<T>,
    ) -> T {
        let (family, ports, link_len) =
            (self.family, (self.kernel_port, self.our_port), link.link_len());
        link.expect(what, |frame, meta| {
            let bytes = transport(family, &frame[link_len..], Proto::TCP)?;
            let segment = tcp::parse(bytes).ok()?;
            if (segment.src_port, segment.dst_port) != ports {
                return None;
            }
            wanted(segment, &bytes[usize::from(segment.header_len)..], meta)
        })
    }
}

/// Transport header and data of a packet, if it is of this family and protocol.
pub(crate) fn transport(family: Family, packet: &[u8], proto: Proto) -> Option<&[u8]> {
    if family.ours.is_v4() {
        let ip = ipv4::check(packet, true).ok()?;
        (ip.proto() == proto).then(|| ip.payload())
    } else {
        let ip = ipv6::check(packet).ok()?;
        (ip.next() == proto).then(|| ip.payload())
    }
}

/// Bytes that differ from place to place, so that a shifted or repeated piece shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

pub(crate) fn tap(name: &str) -> TapSpec {
    TapSpec::new(TapMode::Tap, name)
}

pub(crate) fn tun(name: &str) -> TapSpec {
    TapSpec::new(TapMode::Tun, name)
}
