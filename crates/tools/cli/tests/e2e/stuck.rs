//! Peers that ask for much and take nothing, in packets written by hand, beside honest ones.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto,
    setsockopt, socket,
};
use nix::sys::time::TimeVal;

use crate::flood::{checksum, ones_sum};
use crate::world::{KERNEL_V4, OURS_V4, Server, TAP, World, root};

/// How many of a kind, unless `STUCK_PEERS` says otherwise.
const PEERS: usize = 400;

const REQUEST: &[u8] = b"GET /random/100000000?seed=1 HTTP/1.1\r\nHost: x\r\n\r\n";

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Its window stays shut, and it answers probes.
    Shut,
    /// It acknowledges a byte each second.
    OneByte,
}

/// Sequence numbers of a peer: its own next one, the server's first, and what it has acknowledged.
struct Peer {
    seq: u32,
    first: u32,
    acked: u32,
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// An IPv4 packet to the server from peer `n`; Linux fills in the header checksum.
fn packet(n: usize, seq: u32, ack: u32, flags: u8, window: u16, payload: &[u8]) -> Vec<u8> {
    let len = 40 + payload.len();
    let mut packet = vec![0; 40];
    packet[..10].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 6]);
    packet[12..16].copy_from_slice(&[10, 98, (n >> 8) as u8, n as u8]);
    packet[16..20].copy_from_slice(&OURS_V4.parse::<Ipv4Addr>().unwrap().octets());
    packet[20..22].copy_from_slice(&4_000u16.to_be_bytes());
    packet[22..24].copy_from_slice(&80u16.to_be_bytes());
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    packet[28..32].copy_from_slice(&ack.to_be_bytes());
    packet[32..34].copy_from_slice(&[0x50, flags]);
    packet[34..36].copy_from_slice(&window.to_be_bytes());
    packet.extend_from_slice(payload);
    let sum = ones_sum(&packet[12..20]) + 6 + (len as u32 - 20) + ones_sum(&packet[20..]);
    packet[36..38].copy_from_slice(&checksum(sum));
    packet
}

/// Plays `count` peers that ask `request` until told to stop; `open` counts those that have asked.
fn crowd(stop: &AtomicBool, kind: Kind, count: usize, request: &[u8], open: &AtomicUsize) {
    let out =
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
    let ears =
        socket(AddressFamily::Packet, SockType::Datagram, SockFlag::empty(), SockProtocol::EthIp)
            .unwrap();
    setsockopt(&ears, ReceiveTimeout, &TimeVal::new(0, 20_000)).unwrap();
    let to = SockaddrIn::from(std::net::SocketAddrV4::new(OURS_V4.parse().unwrap(), 0));
    let say = |packet: Vec<u8>| {
        let _ = sendto(out.as_raw_fd(), &packet, &to, MsgFlags::empty());
    };
    let window = if kind == Kind::Shut { 0 } else { 65_000 };
    let mut peers: HashMap<usize, Peer> = HashMap::new();
    let (mut next, mut asked, mut ticked) =
        (0, Instant::now() - Duration::from_secs(9), Instant::now());
    let mut room = vec![0; 70_000];
    while !stop.load(Ordering::Relaxed) {
        // A hundred at a time, and again those whose SYN was lost.
        if asked.elapsed() > Duration::from_millis(50) {
            asked = Instant::now();
            for _ in 0..100 {
                if !peers.contains_key(&next) {
                    say(packet(next, 99, 0, SYN, 1_000, &[]));
                }
                next = (next + 1) % count;
            }
        }
        if kind == Kind::OneByte && ticked.elapsed() > Duration::from_secs(1) {
            ticked = Instant::now();
            for (&n, peer) in &mut peers {
                peer.acked += 1;
                say(packet(n, peer.seq, peer.first.wrapping_add(peer.acked), ACK, window, &[]));
            }
        }
        let Ok(len) = recv(ears.as_raw_fd(), &mut room, MsgFlags::empty()) else { continue };
        let [_, _, _, _, _, _, _, _, _, 6, _, _, _, _, _, _, 10, 98, high, low, rest @ ..] =
            &room[..len]
        else {
            continue;
        };
        let n = usize::from(*high) << 8 | usize::from(*low);
        let seq = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
        if rest[13] & (SYN | ACK) == SYN | ACK && !peers.contains_key(&n) {
            let first = seq.wrapping_add(1);
            say(packet(n, 100, first, ACK, window, request));
            peers.insert(n, Peer { seq: 100 + request.len() as u32, first, acked: 0 });
            open.store(peers.len(), Ordering::Relaxed);
        } else if let Some(peer) = peers.get(&n).filter(|_| kind == Kind::Shut) {
            say(packet(n, peer.seq, peer.first, ACK, window, &[]));
        }
    }
}

/// Bytes of an answer of the server of benchmarks, whatever it is asked: twenty of them are more
/// than one connection may hold.
const ANSWER: usize = 100_000;

/// Plays `count` peers of both kinds, one after the other, that ask `request`, and asks for each of
/// `pages` meanwhile: a path, and how long the answer is.
fn honest_are_answered(
    request: &[u8],
    pages: &[(String, usize)],
    serve: impl Fn(&World) -> Server,
) {
    let count = std::env::var("STUCK_PEERS").map_or(PEERS, |text| text.parse().expect("a number"));
    for kind in [Kind::Shut, Kind::OneByte] {
        let world = World::new();
        world.text("sysctl", &["-q", "-w", "net.ipv4.conf.all.rp_filter=0"]);
        let server = serve(&world);
        let (stop, open) = (AtomicBool::new(false), AtomicUsize::new(0));
        let answered = thread::scope(|scope| {
            scope.spawn(|| world.inside(|| crowd(&stop, kind, count, request, &open)));
            let begun = Instant::now();
            while open.load(Ordering::Relaxed) < count && begun.elapsed() < Duration::from_secs(60)
            {
                thread::sleep(Duration::from_millis(50));
            }
            let mut answered = 0;
            for (path, bytes) in pages {
                let url = format!("http://{OURS_V4}{path}");
                let args =
                    ["-s", "--max-time", "20", "-o", "/dev/null", "-w", "%{size_download}", &url];
                answered +=
                    usize::from(world.run("curl", &args).stdout == bytes.to_string().as_bytes());
            }
            stop.store(true, Ordering::Relaxed);
            answered
        });
        let summary = server.summary();
        assert_eq!(
            open.load(Ordering::Relaxed),
            count,
            "{kind:?}: not all of the peers came: {summary}"
        );
        assert_eq!(answered, pages.len(), "beside {count} of {kind:?}: {summary}");
    }
}

#[test]
fn honest_clients_are_answered_beside_peers_that_take_nothing() {
    if !root() {
        return;
    }
    let pages = [100, 300_000]
        .repeat(5)
        .into_iter()
        .map(|bytes| (format!("/random/{bytes}?seed=1"), bytes));
    honest_are_answered(REQUEST, &pages.collect::<Vec<_>>(), |world| {
        world.serve(&["--sink", "-g", KERNEL_V4])
    });
}

#[test]
fn honest_clients_of_the_bench_server_are_answered_beside_peers_that_take_nothing() {
    if !root() {
        return;
    }
    let answer =
        format!(r"HTTP/1.1 200 OK\r\nContent-Length: {ANSWER}\r\n\r\n{}", "x".repeat(ANSWER));
    let (port, address) = (format!("tap:{TAP}"), format!("{OURS_V4}/24"));
    let args = [
        "bench",
        "server",
        "--json",
        "--port",
        &port,
        "-a",
        &address,
        "--gateway",
        KERNEL_V4,
        "-p",
        "80",
        "-m",
        &answer,
    ];
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
    honest_are_answered(&request, &vec![("/".to_owned(), ANSWER); 10], |world| {
        world.clearway(&args)
    });
}
