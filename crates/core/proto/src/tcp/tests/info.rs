//! What connections tell of themselves is true.

use super::*;
use crate::store::{ChainRx, RingTx};

const MSS: usize = 1_000;

fn ten_out() -> Bench {
    let mut b = Bench::accepted_sack(MSS as u16, 60_000);
    b.send(&pattern(10 * MSS));
    assert_eq!(b.out().len(), 10);
    b
}

fn sack(b: &Bench, ack: u32, blocks: &[(u32, u32)]) -> Segment {
    let mut seg = b.segment(ACK, 1, ack, 60_000);
    for &(l, r) in blocks {
        seg.opts.sack.push(b.iss + l, b.iss + r);
    }
    seg
}

#[test]
fn both_ends_count_the_same() {
    for offloads in [Offloads::default(), crate::testing::loopback(1_500, 0).offloads] {
        let mut w = World::new(config(), offloads, ms(5));
        let (a, b) = w.connect(ConnOptions::default());
        let data = pattern(1 << 20);
        w.transfer(0, a, b, &data, secs(60));
        w.run(ms(60));
        let now = w.now;
        w.ends.iter_mut().for_each(|e| e.stack.expire(now));
        let (tx, rx) = (w.ends[0].stack.info(a).unwrap(), w.ends[1].stack.info(b).unwrap());
        assert_eq!((tx.bytes_sent, tx.bytes_acked, rx.bytes_received), (1 << 20, 1 << 20, 1 << 20));
        assert_eq!((tx.data_segs_in, rx.data_segs_out, tx.unacked, tx.retransmitted), (0, 0, 0, 0));
        assert!(u64::from(tx.data_segs_out) >= (1 << 20) / 1_460);
        assert_eq!(tx.delivered, tx.data_segs_out + 1);
        if offloads == Offloads::default() {
            // Here nobody joins segments without saying how long they were.
            assert_eq!((rx.data_segs_in, rx.segs_in), (tx.data_segs_out, tx.segs_out));
        }
        assert_eq!((tx.min_rtt, tx.path_mtu), (ms(10), 1_500));
        assert!(
            tx.delivery_rate > 100_000 && tx.delivery_rate < 200_000_000,
            "{} B/s",
            tx.delivery_rate
        );
        assert!(tx.busy >= ms(10) && tx.busy < secs(3), "{}", tx.busy);
        assert!(tx.last_data_sent >= ms(20) && tx.last_data_sent < ms(200));
        assert!(rx.last_data_received < ms(200) && tx.last_data_received > rx.last_data_received);
    }
}

#[test]
fn a_reader_that_stops_is_seen_as_the_peers_window() {
    let mut w = World::new(config(), Offloads::default(), ms(1));
    let (a, b) = w.connect(ConnOptions::default());
    let mut written = 0;
    let data = pattern(3 << 20);
    while written < data.len() {
        let more = w.ends[0].stack.send(a, &data[written..]).unwrap();
        written += more;
        w.run(ms(50));
        if more == 0 {
            break;
        }
    }
    w.run(secs(10));
    w.ends[0].stack.expire(w.now);
    let info = w.ends[0].stack.info(a).unwrap();
    assert!(info.rwnd_limited > secs(9), "{info:?}");
    assert!(info.busy >= info.rwnd_limited && info.sndbuf_limited < secs(1), "{info:?}");
    assert!(info.probes <= 1 && info.retransmits == 0);
    let mut read = Vec::new();
    drain(&mut w.ends[1].stack, b, &mut read);
    w.run(secs(2));
    let after = w.ends[0].stack.info(a).unwrap().rwnd_limited;
    assert!(after > info.rwnd_limited && after < info.rwnd_limited + secs(3));
}

/// A way of a tenth of a second there and back, and a sender whose queue holds 20,000 bytes.
fn with_a_small_send_queue() -> World {
    let mut w = World::new(config(), Offloads::default(), ms(50));
    w.ends[0].stack =
        Stack::new(config(), ChainRx::new(64, 1 << 16), RingTx::new(64, 4096, 20_000));
    let iface = w.ends[0].stack.add_interface(raw(1500)).unwrap();
    w.ends[0].stack.add_address(w.now, iface, crate::testing::cidr("10.0.0.1/24")).unwrap();
    w
}

#[test]
fn a_small_send_queue_on_a_long_way_is_seen_as_what_limits() {
    let mut w = with_a_small_send_queue();
    let (a, b) = w.connect(ConnOptions::default());
    w.transfer(0, a, b, &pattern(500_000), secs(600));
    let info = w.ends[0].stack.info(a).unwrap();
    assert!(info.sndbuf_limited > ms(500), "{info:?}");
    assert!(info.busy > info.sndbuf_limited && info.rwnd_limited < info.sndbuf_limited, "{info:?}");
    assert!(!info.delivery_rate_app_limited);
    // What the queue holds, once in each round trip of a tenth of a second.
    assert!((100_000..=400_000).contains(&info.delivery_rate), "{}", info.delivery_rate);
}

/// Who fills a small send queue again and again writes as fast as he may: what is measured then is
/// what the path carries, with that queue, and the search for more ends.
#[test]
fn a_small_send_queue_lets_the_startup_of_bbr_end() {
    for congestion in [Congestion::Bbr, Congestion::Bbr1] {
        let mut w = with_a_small_send_queue();
        let (a, b) = w.connect(ConnOptions { congestion, ..ConnOptions::default() });
        w.transfer(0, a, b, &pattern(500_000), secs(600));
        let bbr = w.ends[0].stack.info(a).unwrap().bbr.unwrap();
        // That of startup is 277 or 289.
        assert!(bbr.pacing_gain <= 125, "{congestion:?}: {bbr:?}");
    }
}

#[test]
fn an_idle_connection_is_neither_busy_nor_limited() {
    let mut w = World::new(config(), Offloads::default(), ms(1));
    let (a, b) = w.connect(ConnOptions { nodelay: true, ..ConnOptions::default() });
    for _ in 0..10 {
        w.transfer(0, a, b, &[1; 100], secs(1));
        w.run(secs(1));
    }
    let info = w.ends[0].stack.info(a).unwrap();
    // Until the ACKs came, delayed ones perhaps.
    assert!(info.busy <= ms(10 * 43), "{}", info.busy);
    assert_eq!((info.rwnd_limited, info.sndbuf_limited), (Duration::ZERO, Duration::ZERO));
    assert!(info.delivery_rate_app_limited && info.delivery_rate > 0);
    assert_eq!((info.data_segs_out, info.delivered), (10, 11));
}

#[test]
fn a_late_segment_is_reordering_and_a_repeated_one_is_not() {
    let mut b = ten_out();
    b.put(sack(&b, 1, &[(1001, 2001)]), &[]);
    b.put(sack(&b, 2001, &[]), &[]);
    assert_eq!((b.info().reord_seen, b.info().total_retransmits), (1, 0));
    // The next hole is repaired by a repetition.
    b.put(sack(&b, 2001, &[(3001, 10_001)]), &[]);
    // Which is no longer believed at once.
    b.silent();
    b.pass(ms(3));
    let info = b.info();
    assert_eq!((info.retransmitted, info.sacked, info.total_retransmits), (1000, 7000, 1));
    assert_eq!(info.bytes_retransmitted, 1000);
    b.put(sack(&b, 10_001, &[]), &[]);
    let info = b.info();
    assert_eq!((info.reord_seen, info.retransmitted, info.delivered), (1, 0, 11));
}

#[test]
fn a_repetition_that_was_not_needed_is_told_by_the_peer() {
    let mut b = ten_out();
    b.put(sack(&b, 10_001, &[]), &[]);
    b.put(sack(&b, 10_001, &[(1, 1001)]), &[]);
    assert_eq!(b.info().dsack_dups, 1);
}

#[test]
fn segments_ahead_of_a_hole_are_counted() {
    let mut b = Bench::accepted_sack(MSS as u16, 60_000);
    for at in [1001, 2001, 1] {
        assert_eq!(b.inject(ACK, at, 1, 60_000, &zeros(1000)), None);
    }
    let info = b.info();
    assert_eq!((info.rcv_ooo_segs, info.data_segs_in, info.bytes_received), (2, 3, 3000));
}

#[test]
fn segments_that_a_device_joined_are_counted_one_by_one() {
    let mut b = Bench::accepted_sack(MSS as u16, 60_000);
    let before = b.info().segs_in;
    let seg = b.segment(ACK, 1, 1, 60_000);
    let packet = tcp_packet(b.remote, b.local, &seg, &zeros(2500));
    let meta = RxMeta { iface: Iface(0), segment_size: 1000, ..RxMeta::default() };
    b.net.ingest_all(&[(meta, packet)]);
    let info = b.info();
    assert_eq!((info.data_segs_in, info.segs_in - before, info.rcv_mss), (3, 3, 1000));
}

#[test]
fn a_connection_without_a_place_for_bbr_goes_by_cubic_and_says_so() {
    let mut config = plain();
    config.limits.paced = 1;
    let mut w = World::new(config, Offloads::default(), ms(5));
    let bbr = ConnOptions { congestion: Congestion::Bbr, ..ConnOptions::default() };
    // Each of the two stacks has one place.
    let (first, _) = w.connect(bbr);
    let remote = Endpoint::new(addr(PEER), PORT);
    let spec = ConnectSpec { table: Table(0), local: None, remote, token: 3, options: bbr };
    let second = w.ends[0].stack.connect(w.now, spec).unwrap();
    w.run(ms(60));
    let stack = &mut w.ends[0].stack;
    let kinds = |stack: &Stack<_>, conn| {
        (stack.options(conn).unwrap().congestion, stack.info(conn).unwrap().congestion)
    };
    assert_eq!(kinds(stack, first), (Congestion::Bbr, Congestion::Bbr));
    assert_eq!(kinds(stack, second), (Congestion::Cubic, Congestion::Cubic));
    assert_eq!(stack.counters().tcp.paced_refused, 1);
    // The place is given back, and taken by who asks next.
    stack.set_options(first, ConnOptions::default());
    stack.set_options(second, bbr);
    assert_eq!(kinds(stack, second), (Congestion::Bbr, Congestion::Bbr));
}

#[test]
fn bbr_tells_what_it_reckons_with_and_others_tell_nothing() {
    let mut w = World::new(config(), Offloads::default(), ms(5));
    let (a, b) = w.connect(ConnOptions { congestion: Congestion::Bbr, ..ConnOptions::default() });
    let data = pattern(1 << 20);
    w.transfer(0, a, b, &data, secs(60));
    let info = w.ends[0].stack.info(a).unwrap();
    let bbr = info.bbr.expect("BBR is in use");
    assert!(bbr.min_rtt >= ms(10) && bbr.min_rtt < ms(20), "{:?}", bbr.min_rtt);
    assert!(bbr.bw > 0 && bbr.cwnd_gain >= 50 && bbr.pacing_gain >= 50, "{bbr:?}");
    let told = info.to_linux().to_linux_bbr().expect("TCP_CC_INFO");
    assert_eq!(told[..8], bbr.bw.to_ne_bytes());
    assert_eq!(told[8..12], (bbr.min_rtt.as_micros() as u32).to_ne_bytes());
    assert_eq!(told[16..], (bbr.cwnd_gain * 256 / 100).to_ne_bytes());
    w.ends[0].stack.set_options(a, ConnOptions::default());
    let info = w.ends[0].stack.info(a).unwrap();
    assert_eq!((info.bbr, info.to_linux().to_linux_bbr()), (None, None));
}

#[test]
fn the_timer_that_waits_for_the_peer_is_told_with_what_is_left_of_it() {
    // The peer's window is shut.
    let mut b = Bench::accepted(plain(), 1000, 0);
    assert_eq!(b.net.stack.running_timer(b.id()), None);
    b.send(b"waiting");
    b.silent();
    assert_eq!(b.net.stack.running_timer(b.id()).unwrap().kind, TimerKind::Persist);

    let mut b = Bench::accepted_sack(MSS as u16, 60_000);
    b.send(b"asked");
    b.one();
    let timer = b.net.stack.running_timer(b.id()).unwrap();
    assert_eq!((timer.kind, timer.tries), (TimerKind::Retransmit, 0));
    assert!(timer.left > Duration::ZERO, "{timer:?}");
    b.net.now += timer.left + secs(10);
    b.net.stack.expire(b.net.now);
    b.net.emit();
    b.net.now += secs(10);
    b.net.stack.expire(b.net.now);
    let timer = b.net.stack.running_timer(b.id()).unwrap();
    assert!(timer.tries > 0, "{timer:?}");

    let mut b = Bench::accepted_sack(MSS as u16, 60_000);
    let id = b.id();
    let every = Keepalive { idle: secs(7200), interval: secs(75), count: 9 };
    b.net.stack.set_options(id, ConnOptions { keepalive: Some(every), ..ConnOptions::default() });
    b.net.now += secs(100);
    b.net.stack.expire(b.net.now);
    let timer = b.net.stack.running_timer(id).unwrap();
    assert_eq!((timer.kind, timer.tries), (TimerKind::Keepalive, 0));
    assert!(timer.left <= secs(7100) && timer.left >= secs(7099), "{timer:?}");
}
