//! Strangers who begin handshakes and never finish them.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

use crate::world::{KERNEL_V4, OURS_V4, OURS_V6, World, root};

/// SYNs per second, as long as the machine keeps up, and seconds, unless `FLOOD_RATE` and
/// `FLOOD_SECONDS` say otherwise.
const RATE: u32 = 50_000;
const SECONDS: u32 = 3;

/// Bytes per second of the transfer that goes on meanwhile.
const PACE: u32 = 20_000_000;

fn chosen(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

pub(crate) fn ones_sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

pub(crate) fn checksum(sum: u32) -> [u8; 2] {
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}

// An IPv4 packet with a SYN from a source that `n` decides; Linux fills in the header checksum.
fn syn(n: u32, to: Ipv4Addr) -> [u8; 44] {
    let mixed = n.wrapping_mul(0x9e37_79b1) ^ (n << 7);
    let [a, b, c, d] = mixed.to_be_bytes();
    let source = [11 + a % 100, b, c, 1 + d % 250];
    let mut packet = [0; 44];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6]);
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&to.octets());
    let port = 1_024 + (mixed % 60_000) as u16;
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet[22..24].copy_from_slice(&80u16.to_be_bytes());
    packet[24..28].copy_from_slice(&mixed.to_be_bytes());
    packet[32..36].copy_from_slice(&[0x60, 0x02, 0xfa, 0xf0]);
    packet[40..44].copy_from_slice(&[2, 4, 5, 0xb4]);
    // Pseudo-header: addresses, protocol 6, length 24.
    let sum = ones_sum(&packet[12..20]) + 6 + 24 + ones_sum(&packet[20..]);
    packet[36..38].copy_from_slice(&checksum(sum));
    packet
}

fn flood(stop: &AtomicBool, rate: u32) -> u32 {
    let raw =
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
    let to: Ipv4Addr = OURS_V4.parse().unwrap();
    let address = SockaddrIn::from(std::net::SocketAddrV4::new(to, 0));
    let begun = Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        if sent % 500 == 0 {
            let due = Duration::from_secs(1) * (sent / 500) / (rate / 500).max(1);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        // A full queue loses a SYN, which is as good as any other that is lost.
        let _ = sendto(raw.as_raw_fd(), &syn(sent, to), &address, MsgFlags::empty());
        sent += 1;
    }
    sent
}

#[test]
fn a_flood_of_syns_leaves_transfers_and_new_connections_alone() {
    if !root() {
        return;
    }
    let world = World::new();
    world.text("sysctl", &["-q", "-w", "net.ipv4.conf.all.rp_filter=0"]);
    let server = world.serve(&["--sink", "-g", KERNEL_V4]);
    let stop = AtomicBool::new(false);
    let (rate, seconds) = (chosen("FLOOD_RATE", RATE), chosen("FLOOD_SECONDS", SECONDS));
    let bytes = u64::from(PACE) * u64::from(seconds);
    let url = format!("http://{OURS_V4}/random/{bytes}?seed=1");
    let mut pages: u64 = 0;
    let sent = thread::scope(|scope| {
        let flooder = scope.spawn(|| world.inside(|| flood(&stop, rate)));
        let transfer = scope.spawn(|| {
            let (pace, time_limit) = (PACE.to_string(), (seconds + 30).to_string());
            let args = [
                "-s",
                "--limit-rate",
                &pace,
                "--max-time",
                &time_limit,
                "-o",
                "/dev/null",
                "-w",
                "%{size_download}",
            ];
            world.text("curl", &[&args[..], &[&url]].concat())
        });
        thread::sleep(Duration::from_secs(1));
        for _ in 0..5.max(seconds) {
            for host in [OURS_V4.to_string(), format!("[{OURS_V6}]")] {
                let page =
                    world.text("curl", &["-s", "--max-time", "60", &format!("http://{host}/")]);
                assert!(page.starts_with("Clearway"));
                pages += 1;
            }
        }
        let size = transfer.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(size, bytes.to_string());
        flooder.join().unwrap()
    });
    // Far more than the backlog and the table of half-open connections hold.
    println!("{sent} SYNs in {seconds} s, {pages} new connections answered meanwhile");
    assert!(sent > 20_000, "only {sent} SYNs: that was no flood");
    let summary = server.summary();
    assert_eq!(
        (&summary["requests"], &summary["failed_connections"]),
        (&(pages + 1).into(), &0.into()),
        "{summary}"
    );
}
