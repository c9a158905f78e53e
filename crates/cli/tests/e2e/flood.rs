//! Strangers who begin handshakes and never finish them.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};

use crate::world::{KERNEL_V4, OURS_V4, OURS_V6, World, root};

/// SYNs per second, as long as the machine keeps up.
const RATE: u32 = 50_000;

fn ones_sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn checksum(sum: u32) -> [u8; 2] {
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

fn flood(stop: &AtomicBool) -> u32 {
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
    let to: Ipv4Addr = OURS_V4.parse().unwrap();
    let address = SockaddrIn::from(std::net::SocketAddrV4::new(to, 0));
    let begun = Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        if sent % 500 == 0 {
            let due = Duration::from_secs(1) * (sent / 500) / (RATE / 500);
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
    let url = format!("http://{OURS_V4}/random/60000000?seed=1");
    let sent = thread::scope(|scope| {
        let flooder = scope.spawn(|| world.inside(|| flood(&stop)));
        let transfer = scope.spawn(|| {
            let args = ["-s", "--limit-rate", "20M", "--max-time", "30", "-o", "/dev/null", "-w", "%{size_download}"];
            world.text("curl", &[&args[..], &[&url]].concat())
        });
        thread::sleep(Duration::from_secs(1));
        for _ in 0..5 {
            for host in [OURS_V4.to_string(), format!("[{OURS_V6}]")] {
                let page = world.text("curl", &["-s", "--max-time", "10", &format!("http://{host}/")]);
                assert!(page.starts_with("Clearway"));
            }
        }
        let size = transfer.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(size, "60000000");
        flooder.join().unwrap()
    });
    assert!(sent > 20_000, "only {sent} SYNs in three seconds: that was no flood");
    let summary = server.summary();
    assert_eq!((&summary["requests"], &summary["failed_connections"]), (&11.into(), &0.into()), "{summary}");
}
