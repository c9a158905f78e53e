//! Strangers off the path, and peers that do what no peer should (THREATS 1 to 27).

use super::*;

fn established() -> Bench {
    Bench::accepted(plain(), 1000, 8000)
}

#[test]
fn only_an_exact_reset_resets() {
    let mut b = established();
    assert_eq!(b.inject(RST, 0, 0, 0, &[]), Some(Drop::TcpResetOutOfWindow));
    b.silent();
    let wnd = b.info().rcv_wnd;
    assert_eq!(b.inject(RST, 1 + wnd, 0, 0, &[]), Some(Drop::TcpResetOutOfWindow));
    b.silent();
    for seq in [2, wnd / 2, wnd] {
        assert_eq!(b.inject(RST, seq, 0, 0, &[]), Some(Drop::TcpResetNotExact));
        let challenge = b.one();
        assert_eq!((challenge.flags(), b.rel_seq(&challenge), b.rel_ack(&challenge)), (ACK, 1, 1));
    }
    assert_eq!(b.state(), State::Established);
    assert_eq!(b.inject(RST, 1, 0, 0, &[]), Some(Drop::TcpReset));
    assert_eq!(b.net.stack.failure(b.id()), Some(Failure::Reset));
    b.silent();
}

#[test]
fn a_syn_anywhere_is_challenged() {
    let mut b = established();
    for seq in [1, 100, 0, 0x8000_0000] {
        assert!(b.inject(SYN, seq, 0, 8000, &[]).is_some());
        assert_eq!(b.one().flags(), ACK);
    }
    assert_eq!(b.state(), State::Established);
    assert!(b.counters().challenge_acks >= 2);
}

#[test]
fn acks_of_unsent_and_ancient_data_are_challenged() {
    let mut b = established();
    assert_eq!(b.inject(ACK, 1, 2, 8000, b"blind"), Some(Drop::TcpAckUnsent));
    assert_eq!(b.one().flags(), ACK);
    assert_eq!(
        b.inject(ACK, 1, 1_u32.wrapping_sub(8001), 8000, b"blind"),
        Some(Drop::TcpAckTooOld)
    );
    assert_eq!(b.one().flags(), ACK);
    assert_eq!(b.inject(ACK, 1, 1_u32.wrapping_sub(8000), 8000, b"old"), None);
    assert_eq!(b.read_all(), b"old");
}

#[test]
fn challenges_have_a_budget_that_comes_back() {
    let mut b = established();
    let mut sent = 0;
    for _ in 0..100 {
        b.inject(RST, 5, 0, 0, &[]);
        sent += b.out().len();
    }
    assert!((5..=10).contains(&sent), "{sent}");
    assert!(b.counters().challenge_acks_limited >= 90);
    b.pass(secs(1));
    b.inject(RST, 5, 0, 0, &[]);
    assert_eq!(b.out().len(), 1);
}

#[test]
fn a_window_full_of_flags_does_not_shake_it() {
    let mut b = established();
    for flags in [Flags::NONE, FIN, PSH, FIN | PSH | Flags::URG] {
        assert_eq!(b.inject(flags, 1, 0, 8000, b"x"), Some(Drop::TcpNoAck));
    }
    assert_eq!(b.inject(SYN | FIN, 1, 0, 8000, &[]), Some(Drop::TcpSynInWindow));
    assert_eq!(b.state(), State::Established);
    assert!(b.read_all().is_empty());
}

#[test]
fn an_old_timestamp_is_dropped_and_answered_but_a_reset_needs_none() {
    let opts = TcpOptions { ts: Some((1000, 0)), ..TcpOptions::NONE };
    let mut b = Bench::connected(config(), opts, 8000);
    b.stamps = Some((1010, b.stamps.unwrap().1));
    assert_eq!(b.inject(ACK, 1, 1, 8000, b"new"), None);
    assert_eq!(b.one().seg.opts.ts.unwrap().1, 1010);
    b.stamps = Some((1009, b.stamps.unwrap().1));
    assert_eq!(b.inject(ACK, 4, 1, 8000, b"ghost"), Some(Drop::TcpOldTimestamp));
    assert_eq!(b.one().seg.opts.ts.unwrap().1, 1010);
    b.stamps = None;
    assert_eq!(b.inject(ACK, 4, 1, 8000, b"bare"), Some(Drop::TcpTimestampMissing));
    b.silent();
    assert_eq!(b.inject(RST, 4, 0, 0, &[]), Some(Drop::TcpReset));
}

#[test]
fn after_24_days_of_silence_any_timestamp_is_good() {
    let opts = TcpOptions { ts: Some((0x9000_0000, 0)), ..TcpOptions::NONE };
    let mut b = Bench::connected(config(), opts, 8000);
    b.net.now += secs(25 * 24 * 3600);
    b.stamps = Some((5, b.stamps.unwrap().1));
    assert_eq!(b.inject(ACK, 1, 1, 8000, b"back again"), None);
    assert_eq!(b.read_all(), b"back again");
}

#[test]
fn a_first_timestamp_of_any_value_is_taken_and_wraps() {
    for first in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
        let opts = TcpOptions { ts: Some((first, 0)), ..TcpOptions::NONE };
        let mut b = Bench::connected(config(), opts, 8000);
        b.stamps = Some((first.wrapping_add(1), b.stamps.unwrap().1));
        assert_eq!(b.inject(ACK, 1, 1, 8000, b"x"), None, "{first}");
    }
}

#[test]
fn a_later_copy_with_other_bytes_changes_nothing() {
    let mut b = established();
    b.inject(ACK, 5, 1, 8000, b"BBBB");
    b.inject(ACK, 3, 1, 8000, b"xxyyyyzz");
    b.inject(ACK, 1, 1, 8000, b"AAqqqq");
    b.out();
    // What lies behind a piece that was here is not taken from the same segment; its sender repeats
    // it.
    b.inject(ACK, 9, 1, 8000, b"zz");
    assert_eq!(b.read_all(), b"AAxxBBBBzz");
}

#[test]
fn urgent_data_is_announced_and_stays_in_the_stream() {
    let mut b = established();
    let seg = Segment { urg: 3, ..b.segment(ACK | Flags::URG, 1, 1, 8000) };
    b.put(seg, b"abcdef");
    assert_eq!(b.events(), [ConnEvents::READABLE | ConnEvents::URGENT]);
    let id = b.id();
    assert_eq!(b.net.stack.urgent(id), Some(3));
    b.net.stack.consumed(id, 2);
    assert_eq!(b.net.stack.urgent(id), Some(1));
    b.net.stack.consumed(id, 1);
    assert_eq!(b.net.stack.urgent(id), None);
    assert_eq!(b.net.stack.recv(id).unwrap(), b"def");
}

#[test]
fn senseless_urgent_pointers_do_nothing() {
    let mut b = established();
    // Zero; before what was read; the same again; far beyond the data.
    for (urg, seq) in [(0, 1), (1, 1_u32.wrapping_sub(5))] {
        let seg = Segment { urg, ..b.segment(ACK | Flags::URG, seq, 1, 8000) };
        b.put(seg, &[]);
        assert_eq!(b.net.stack.urgent(b.id()), None);
    }
    let far = Segment { urg: 65_535, ..b.segment(ACK | Flags::URG, 1, 1, 8000) };
    b.put(far, b"x");
    assert_eq!(b.net.stack.urgent(b.id()), Some(65_535));
    assert_eq!(b.read_all(), b"x");
}

#[test]
fn we_announce_urgent_data_until_it_is_acknowledged() {
    let mut b = established();
    let id = b.id();
    b.net.stack.send_urgent(id, b"stop!").unwrap();
    let seen = b.one();
    assert!(seen.flags().contains(Flags::URG));
    assert_eq!(seen.seg.urg, 5);
    b.inject(ACK, 1, 6, 8000, &[]);
    b.send(b"calm");
    assert!(!b.one().flags().contains(Flags::URG));
}

#[test]
fn both_sequence_spaces_pass_zero_and_the_middle_of_the_circle() {
    for target in [0xffff_ff00_u32, 0x7fff_ff00] {
        let mut first = Bench::new(plain());
        first.listen(8);
        first.inject(SYN, 0, 0, 8000, &[]);
        let iss = first.one().seg.seq;
        let mut b = Bench::new(plain());
        b.peer_iss = Seq(target);
        // Our number grows by one every 4 microseconds.
        b.net.now += Duration::from_micros(4 * u64::from(Seq(target).since(iss)));
        b.listen(8);
        b.handshake(
            TcpOptions { mss: Some(1000), sack_permitted: true, ..TcpOptions::NONE },
            60_000,
        );
        assert_eq!(b.iss, Seq(target));
        let data = pattern(3000);
        b.send(&data);
        assert_eq!(b.out().iter().flat_map(|s| s.data.clone()).collect::<Vec<_>>(), data);
        b.inject(ACK, 1, 3001, 60_000, &[]);
        assert_eq!((b.info().unacked, b.info().bytes_acked), (0, 3000));
        // In pieces, backwards.
        for i in (0..3).rev() {
            let piece = data[i * 1000..(i + 1) * 1000].to_vec();
            b.inject(ACK, 1 + i as u32 * 1000, 3001, 60_000, &piece);
        }
        assert_eq!(b.read_all(), data);
        assert_eq!(b.info().bytes_received, 3000);
        b.out();
        let id = b.id();
        b.net.stack.close(id);
        b.one();
        b.inject(FIN | ACK, 3001, 3002, 60_000, &[]);
        assert_eq!(b.net.stack.tcp.time_wait.len(), 1);
    }
}

#[test]
fn dividing_one_ack_into_many_does_not_open_the_window_faster() {
    let mut b = established();
    b.send(&pattern(4000));
    b.out();
    let before = b.info().cwnd;
    for ack in 0..1000 {
        b.inject(ACK, 1, 2 + ack, 60_000, &[]);
    }
    assert!(b.info().cwnd <= before + 1000);
}

#[test]
fn an_icmp_error_must_quote_what_is_in_flight() {
    use crate::net::icmp::IcmpError;
    let mut b = established();
    b.send(&pattern(2000));
    b.out();
    let key = b.net.stack.tcp.owned(b.id()).unwrap().key;
    let tell = |b: &mut Bench, seq: Seq, err| {
        let (tcp, mut cx) = b.net.stack.split();
        tcp.on_icmp_error(&mut cx, &key, seq, err)
    };
    let iss = b.iss;
    let small = IcmpError::PacketTooBig { mtu: 640 };
    assert!(tell(&mut b, iss, small).is_err());
    assert!(tell(&mut b, iss + 2001, small).is_err());
    assert_eq!(b.info().snd_mss, 1000);
    assert!(tell(&mut b, iss + 1, small).is_ok());
    assert_eq!(b.info().snd_mss, 600);
    // An unreachable peer is a soft error once established.
    let gone = IcmpError::Unreachable(Unreachable::Host);
    assert!(tell(&mut b, iss + 1, gone).is_ok());
    assert_eq!(b.state(), State::Established);
}

#[test]
fn an_unreachable_port_refuses_a_connection_and_an_unreachable_host_only_explains_its_failure() {
    use crate::net::icmp::IcmpError;
    for (why, at_once) in [(Unreachable::Port, true), (Unreachable::Host, false)] {
        let mut b = Bench::new(plain());
        b.connect(ConnOptions::default());
        let syn = b.one();
        let key = b.net.stack.tcp.owned(b.id()).unwrap().key;
        let (tcp, mut cx) = b.net.stack.split();
        tcp.on_icmp_error(&mut cx, &key, syn.seg.seq, IcmpError::Unreachable(why)).unwrap();
        assert_eq!(b.net.stack.failure(b.id()).is_some(), at_once);
        b.pass(secs(300));
        assert_eq!(b.net.stack.failure(b.id()), Some(Failure::Unreachable(why)));
    }
}

#[test]
fn a_reassembly_map_that_is_full_or_not_to_be_had_costs_nothing_but_a_retransmission() {
    let mut config = plain();
    config.limits.reassembly_maps = 0;
    let mut b = Bench::accepted(config, 1000, 8000);
    assert_eq!(b.inject(ACK, 5, 1, 8000, b"late"), Some(Drop::TcpReassemblyFull));
    b.one();
    b.inject(ACK, 1, 1, 8000, b"soon");
    b.inject(ACK, 5, 1, 8000, b"late");
    assert_eq!(b.read_all(), b"soonlate");
}
