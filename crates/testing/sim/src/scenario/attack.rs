//! Strangers: they see nothing of what is said, and put frames of their own on the link.

use clearway_base::{Duration, Instant, Rng};
use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint, EtherType, Flags, Proto, Segment, Seq, TcpOptions, eth};

use crate::frame::{self, Framing};
use crate::observe::FlowName;
use crate::stage::{self, A, B, PORT, Stage};
use crate::talk::Expect;
use crate::world::World;

/// Something a stranger does again and again until an instant, with a pause drawn anew each time.
fn again_and_again(
    world: &mut World,
    mut rng: Rng,
    most_wait: Duration,
    until: Instant,
    mut deed: impl FnMut(&mut World, &mut Rng) + 'static,
) {
    if world.now >= until || world.failure.is_some() {
        return;
    }
    deed(world, &mut rng);
    let wait = Duration::from_nanos(rng.between(1_000, most_wait.as_nanos()));
    world.after(wait, move |w| again_and_again(w, rng, most_wait, until, deed));
}

/// Puts an IP packet into a host's first interface, as if it had come from the other host.
fn throw(world: &mut World, host: usize, framing: Framing, packet: &[u8]) {
    let bytes = framing.wrap(stage::mac(host, 0), stage::mac(1 - host, 0), packet);
    world.inject(host, Iface(0), bytes, Duration::ZERO);
}

fn honest_traffic(stage: &mut Stage, count: u64, most: u64) {
    stage.listen();
    for _ in 0..count {
        let (n, m) = (stage.bytes(most), stage.bytes(most));
        let talk = stage.exchange(n, m);
        let wait = stage.millis(0, 4_000);
        stage.converse(wait, talk);
    }
}

/// SYNs from anywhere to the port that honest peers use, thousands a second.
pub(super) fn flood(stage: &mut Stage) {
    super::transfer::configure(stage, |c| {
        c.tcp.syn_cookies = true;
        c.limits.half_open = c.limits.half_open.min(64);
    });
    let count = stage.rng.between(1, 10);
    honest_traffic(stage, count, 500_000);
    let until = stage.world.began + Duration::from_secs(6);
    stage.faults_until(until);
    let (framing, v6, service) = (stage.conditions.framing, stage.conditions.v6, stage.service());
    let pause =
        Duration::from_micros(*crate::conditions::pick(&mut stage.rng, &[300, 1_000, 5_000]));
    let rng = stage.rng.fork();
    again_and_again(&mut stage.world, rng, pause, until, move |w, rng| {
        let src = Endpoint::new(somebody(rng, v6), rng.between(1, 65_535) as u16);
        let mut opts = TcpOptions::NONE;
        if rng.chance(800_000) {
            opts.mss = Some(1460);
            opts.wscale = Some(7);
            opts.sack_permitted = true;
            opts.ts = Some((rng.next_u32(), 0));
        }
        let seg = Segment {
            seq: Seq(rng.next_u32()),
            flags: Flags::SYN,
            wnd: 65_535,
            opts,
            ..Segment::default()
        };
        throw(w, B, framing, &frame::tcp_packet(src, service, &seg, b""));
        if rng.chance(50_000) {
            // A guess at a cookie.
            let seg = Segment {
                seq: Seq(rng.next_u32()),
                ack: Seq(rng.next_u32()),
                flags: Flags::ACK,
                ..seg
            };
            throw(w, B, framing, &frame::tcp_packet(src, service, &seg, b"GET /"));
        }
    });
}

/// An address of nobody in this world, on the link or beyond it.
fn somebody(rng: &mut Rng, v6: bool) -> Addr {
    if v6 {
        let mut bytes = [0; 16];
        rng.fill(&mut bytes);
        bytes[..6].copy_from_slice(&[
            0x20,
            1,
            0xd,
            0xb8,
            0,
            if rng.chance(300_000) { 0 } else { 77 },
        ]);
        bytes[6..8].fill(0);
        Addr::v6(bytes)
    } else if rng.chance(300_000) {
        Addr::v4([10, 0, 0, rng.between(10, 250) as u8])
    } else {
        Addr::v4([
            rng.between(11, 126) as u8,
            rng.next_u32() as u8,
            rng.next_u32() as u8,
            rng.between(1, 254) as u8,
        ])
    }
}

/// Frames of noise, and frames that begin well and end badly.
pub(super) fn garbage(stage: &mut Stage) {
    honest_traffic(stage, 2, 500_000);
    let until = stage.world.began + Duration::from_secs(5);
    stage.faults_until(until);
    let (framing, v6) = (stage.conditions.framing, stage.conditions.v6);
    let rng = stage.rng.fork();
    again_and_again(&mut stage.world, rng, Duration::from_millis(4), until, move |w, rng| {
        let host = rng.below(2) as usize;
        match rng.below(4) {
            0 => noise(w, rng, host),
            1 => mangled(w, rng, host, framing, v6),
            2 => {
                let mut upper = vec![0; rng.between(0, 200) as usize];
                rng.fill(&mut upper);
                let proto = Proto(rng.next_u32() as u8);
                let src = somebody(rng, v6);
                let packet =
                    frame::ip_packet(src, stage::address(v6, 0, host as u8 + 1), proto, 64, &upper);
                throw(w, host, framing, &packet);
            }
            _ => stray_segment(w, rng, host, framing, v6),
        }
    });
}

/// A frame for the host, with random bytes in it.
fn noise(w: &mut World, rng: &mut Rng, host: usize) {
    let mut bytes = vec![0; rng.between(0, 1600) as usize];
    rng.fill(&mut bytes);
    if bytes.len() >= eth::HEADER_LEN && w.hosts[host].ports[0].framing == Framing::Ethernet {
        let kinds = [EtherType::IPV4, EtherType::IPV6, EtherType::VLAN, EtherType(0x1234)];
        let kind = *crate::conditions::pick(rng, &kinds);
        eth::emit(stage::mac(host, 0), stage::mac(9, 0), kind, &mut bytes);
    }
    w.inject(host, Iface(0), bytes, Duration::ZERO);
}

/// A segment that was sound before some of its bytes were changed; its checksum is not made anew.
fn mangled(w: &mut World, rng: &mut Rng, host: usize, framing: Framing, v6: bool) {
    let flags = Flags(rng.next_u32() as u16 & 0x1ff);
    let mut packet = segment_to(rng, host, v6, flags);
    // One bit, so that the checksum is surely wrong; where it does not look, no harm is done.
    let bit = rng.below(packet.len() as u64 * 8);
    packet[(bit / 8) as usize] ^= 1 << (bit % 8);
    if rng.chance(300_000) {
        packet.truncate(rng.below(packet.len() as u64) as usize);
    }
    throw(w, host, framing, &packet);
}

/// A sound segment that belongs to no connection.
fn stray_segment(w: &mut World, rng: &mut Rng, host: usize, framing: Framing, v6: bool) {
    let flags = Flags(rng.next_u32() as u16 & 0x1ff);
    let packet = segment_to(rng, host, v6, flags);
    throw(w, host, framing, &packet);
}

fn segment_to(rng: &mut Rng, host: usize, v6: bool, flags: Flags) -> Vec<u8> {
    let src = Endpoint::new(somebody(rng, v6), rng.next_u32() as u16);
    let port = if rng.chance(500_000) { PORT } else { rng.next_u32() as u16 };
    let dst = Endpoint::new(stage::address(v6, 0, host as u8 + 1), port);
    let mut opts = TcpOptions::NONE;
    if rng.chance(500_000) {
        opts.ts = Some((rng.next_u32(), rng.next_u32()));
        opts.sack.push(Seq(rng.next_u32()), Seq(rng.next_u32()));
    }
    let (seq, ack) = (Seq(rng.next_u32()), Seq(rng.next_u32()));
    let seg = Segment {
        seq,
        ack,
        flags,
        wnd: rng.next_u32() as u16,
        urg: rng.next_u32() as u16,
        opts,
        ..Segment::default()
    };
    let mut payload = vec![0; rng.below(300) as usize];
    rng.fill(&mut payload);
    frame::tcp_packet(src, dst, &seg, &payload)
}

/// A stranger who knows both endpoints of a connection, and guesses its sequence numbers (RFC
/// 5961).
pub(super) fn blind(stage: &mut Stage) {
    honest_traffic(stage, 2, 1_000_000);
    let until = stage.world.began + Duration::from_secs(5);
    stage.faults_until(until);
    let (framing, service) = (stage.conditions.framing, stage.service());
    let rng = stage.rng.fork();
    again_and_again(&mut stage.world, rng, Duration::from_millis(3), until, move |w, rng| {
        // A SYN that hits a handshake can spoil it, which TCP cannot help (RFC 9293 3.5,
        // simultaneous open); an open connection it must not hurt.
        let names: Vec<FlowName> = w.ledger.borrow().open_meetings().collect();
        if names.is_empty() {
            return;
        }
        let FlowName { src, dst, .. } = *crate::conditions::pick(rng, &names);
        let (from, to) = if rng.chance(500_000) { (src, dst) } else { (dst, src) };
        let host = if to == service { B } else { A };
        let flags = [
            Flags::RST,
            Flags::RST | Flags::ACK,
            Flags::SYN,
            Flags::ACK,
            Flags::FIN | Flags::ACK,
            Flags::SYN | Flags::ACK,
        ];
        let flags = *crate::conditions::pick(rng, &flags);
        let seg = Segment {
            seq: Seq(rng.next_u32()),
            ack: Seq(rng.next_u32()),
            flags,
            wnd: 1000,
            ..Segment::default()
        };
        let payload: &[u8] = if rng.chance(500_000) { b"evil" } else { b"" };
        throw(w, host, framing, &frame::tcp_packet(from, to, &seg, payload));
    });
    let _ = Expect::Whole;
}
