//! Loss: duplicate ACKs, SACK, partial ACKs, timeouts, and what the receiver says.

use super::*;

/// A connection with ten segments of 1000 bytes in flight.
fn ten_out(sack: bool) -> Bench {
    let mut b = if sack {
        Bench::accepted_sack(1000, 60_000)
    } else {
        Bench::accepted(plain(), 1000, 60_000)
    };
    b.send(&pattern(10_000));
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
fn three_duplicates_resend_the_first_segment_at_once() {
    let mut b = ten_out(false);
    for i in 0..3 {
        b.inject(ACK, 1, 1, 60_000, &[]);
        let seen = b.out();
        if i < 2 {
            assert!(seen.is_empty());
        } else {
            assert_eq!((seen.len(), b.rel_seq(&seen[0]), seen[0].data.len()), (1, 1, 1000));
        }
    }
    assert_eq!(b.info().phase, Phase::Recovery);
    assert!(b.info().ssthresh < 10_000);
    b.inject(ACK, 1, 10_001, 60_000, &[]);
    assert_eq!((b.info().phase, b.info().unacked), (Phase::Open, 0));
    assert_eq!(b.counters().fast_recoveries, 1);
}

#[test]
fn the_first_two_duplicates_let_new_data_out() {
    let mut b = ten_out(false);
    b.send(&pattern(5000));
    b.silent();
    for i in 0..2 {
        b.inject(ACK, 1, 1, 60_000, &[]);
        let seen = b.one();
        assert_eq!(b.rel_seq(&seen), 10_001 + i * 1000);
    }
}

#[test]
fn a_partial_ack_resends_the_next_hole() {
    let mut b = ten_out(false);
    for _ in 0..3 {
        b.inject(ACK, 1, 1, 60_000, &[]);
    }
    b.one();
    b.inject(ACK, 1, 4001, 60_000, &[]);
    let seen = b.out();
    assert_eq!(b.rel_seq(&seen[0]), 4001);
    assert_eq!(b.info().phase, Phase::Recovery);
}

#[test]
fn what_one_burst_of_acks_lets_go_is_not_forgotten_when_it_tells_of_a_loss() {
    let mut b = ten_out(true);
    b.send(&pattern(20_000));
    b.silent();
    b.inject(ACK, 1, 5001, 60_000, &[]);
    for to in [7001, 8001, 9001] {
        let seg = sack(&b, 5001, &[(6001, to)]);
        b.put(seg, &[]);
    }
    // Taken one by one, the first ACK would let out five and the next two one each (RFC 3042); the
    // last one's repetition is the eighth. One of what was out before may be in flight still.
    let seen = b.out();
    assert_eq!((b.info().phase, b.info().ssthresh), (Phase::Recovery, 7000));
    assert_eq!((b.rel_seq(&seen[0]), b.rel_seq(&seen[1])), (5001, 10_001));
    assert_eq!(seen.len(), 8);
}

#[test]
fn a_burst_of_duplicates_alone_lets_out_what_limited_transmit_would() {
    let mut b = ten_out(true);
    b.send(&pattern(20_000));
    b.silent();
    for to in [2001, 3001, 4001] {
        let seg = sack(&b, 1, &[(1001, to)]);
        b.put(seg, &[]);
    }
    // Two behind the first two duplicates, and the repetition.
    let seen: Vec<_> = b.out().iter().map(|segment| b.rel_seq(segment)).collect();
    assert_eq!(seen, [1, 10_001, 11_001]);
    // The same in the order in which they come one by one, but for which is first.
    let mut b = ten_out(true);
    b.send(&pattern(20_000));
    b.silent();
    let mut seen = Vec::new();
    for to in [2001, 3001, 4001] {
        let seg = sack(&b, 1, &[(1001, to)]);
        b.put(seg, &[]);
        seen.extend(b.out().iter().map(|segment| b.rel_seq(segment)));
    }
    assert_eq!(seen, [10_001, 11_001, 1]);
}

#[test]
fn selective_acks_say_what_is_missing_and_only_that_is_sent_again() {
    let mut b = ten_out(true);
    for to in [3001, 4001, 5001] {
        let seg = sack(&b, 1, &[(1001, to)]);
        b.put(seg, &[]);
    }
    let seen = b.out();
    assert_eq!((b.rel_seq(&seen[0]), seen[0].data.len()), (1, 1000));
    assert_eq!(b.info().sacked, 4000);
    // A second hole shows up; what is held is not sent again.
    let seg = sack(&b, 1, &[(6001, 10_001), (1001, 5001)]);
    b.put(seg, &[]);
    let seen = b.out();
    assert!(seen.iter().all(|s| b.rel_seq(s) == 5001), "{seen:?}");
    b.inject(ACK, 1, 10_001, 60_000, &[]);
    assert_eq!((b.info().unacked, b.info().sacked, b.info().phase), (0, 0, Phase::Open));
    assert_eq!(b.net.stack.tcp.pools.boards.len(), 0);
}

#[test]
fn what_the_peer_holds_behind_a_hole_takes_no_room_in_the_send_queue() {
    let mut b = Bench::accepted_sack(1000, 60_000);
    // The window grows until what may be written is more than the least.
    let mut una = 1;
    for _ in 0..12 {
        b.send(&zeros(1_000_000));
        let sent: usize = b.out().iter().map(|s| s.data.len()).sum();
        una += sent as u32;
        b.inject(ACK, 1, una, 60_000, &[]);
        b.events();
    }
    let write_all = |b: &mut Bench| {
        while b.send(&zeros(1_000_000)) > 0 {}
        b.out();
        while b.send(&zeros(1_000_000)) > 0 {}
        (b.info().unacked + b.info().unsent, b.info().unacked)
    };
    let (full, flight) = write_all(&mut b);
    assert!(flight > 40_000 && full >= 2 * b.info().cwnd, "{flight} of {full}");
    b.events();
    // All but the first segment has arrived.
    let seg = sack(&b, una, &[(una + 1000, una + flight)]);
    b.put(seg, &[]);
    assert!(b.events().iter().any(|event| event.has(ConnEvents::WRITABLE)));
    let (now, _) = write_all(&mut b);
    let (cwnd, held) = (b.info().cwnd, b.info().sacked);
    assert!(held == flight - 1000 && now >= 2 * cwnd + held, "{full}, {now}; {cwnd}, {held}");
}

#[test]
fn a_timeout_in_fast_recovery_does_not_cut_the_threshold_once_more() {
    let mut b = ten_out(true);
    for to in [3001, 4001, 5001] {
        let seg = sack(&b, 1, &[(1001, to)]);
        b.put(seg, &[]);
    }
    assert!(!b.out().is_empty());
    let ssthresh = b.info().ssthresh;
    assert_eq!((ssthresh, b.info().phase), (7000, Phase::Recovery));
    b.pass(ms(1500));
    assert_eq!((b.info().ssthresh, b.info().phase), (ssthresh, Phase::Loss));
}

#[test]
fn lies_in_sack_blocks_are_ignored() {
    let mut b = ten_out(true);
    for blocks in [
        [(5001, 4001), (0, 0)],
        [(20_000, 30_000), (1, 1)],
        [(0x8000_0000, 0x9000_0000), (9_001, 10_002)],
    ] {
        let seg = sack(&b, 1, &blocks);
        b.put(seg, &[]);
    }
    assert_eq!(b.info().sacked, 0);
    b.silent();
}

#[test]
fn after_a_timeout_everything_is_sent_again_from_the_front_as_acks_come() {
    let mut b = ten_out(false);
    let first = b.pass(ms(250));
    assert_eq!((first.len(), b.rel_seq(&first[0].1)), (1, 1));
    assert_eq!(b.info().phase, Phase::Loss);
    assert_eq!(b.info().cwnd, 1000);
    b.inject(ACK, 1, 1001, 60_000, &[]);
    let next: Vec<u32> = b.out().iter().map(|s| b.rel_seq(s)).collect();
    assert_eq!(next, [1001, 2001]);
    b.inject(ACK, 1, 10_001, 60_000, &[]);
    assert_eq!((b.info().phase, b.info().unacked), (Phase::Open, 0));
}

#[test]
fn after_a_timeout_an_ack_is_worth_all_that_it_covers_with_sack_and_else_one_segment() {
    for (has_sack, cwnd) in [(true, 6000), (false, 2000)] {
        let mut b = ten_out(has_sack);
        b.pass(ms(700));
        assert_eq!((b.info().phase, b.info().cwnd), (Phase::Loss, 1000));
        b.inject(ACK, 1, 5001, 60_000, &[]);
        assert_eq!(b.info().cwnd, cwnd, "{has_sack}");
    }
}

#[test]
fn after_a_timeout_what_the_peer_holds_is_spared() {
    let mut b = ten_out(true);
    let seg = sack(&b, 1, &[(2001, 9001)]);
    b.put(seg, &[]);
    b.out();
    b.pass(ms(500));
    let mut again = Vec::new();
    for ack in [1001, 9001] {
        let seg = sack(&b, ack, &[(2001, 9001)]);
        b.put(seg, &[]);
        again.extend(b.out().iter().map(|s| s.seg.seq.since(b.iss)));
    }
    assert!(again.iter().all(|s| *s < 2001 || *s >= 9001), "{again:?}");
}

#[test]
fn the_receiver_reports_holes_newest_first_and_duplicates() {
    let mut b = Bench::accepted_sack(1000, 8000);
    let piece = |b: &mut Bench, seq: u32| {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
        let seen = b.one();
        seen.seg
            .opts
            .sack
            .iter()
            .map(|(l, r)| (l.since(b.peer_iss), r.since(b.peer_iss)))
            .collect::<Vec<_>>()
    };
    assert_eq!(piece(&mut b, 101), [(101, 201)]);
    assert_eq!(piece(&mut b, 301), [(301, 401), (101, 201)]);
    assert_eq!(piece(&mut b, 501), [(501, 601), (301, 401), (101, 201)]);
    assert_eq!(piece(&mut b, 201), [(101, 401), (501, 601)]);
    // A duplicate below RCV.NXT and one above are reported (RFC 2883).
    assert_eq!(piece(&mut b, 1), [(501, 601)]);
    assert_eq!(piece(&mut b, 1), [(1, 101), (501, 601)]);
    assert_eq!(piece(&mut b, 501), [(501, 601), (501, 601)]);
    assert_eq!(piece(&mut b, 401), []);
    assert_eq!(b.read_all().len(), 600);
    assert_eq!(b.net.stack.tcp.pools.reasm.len(), 0);
}

/// The blocks of the one segment that leaves now.
fn blocks(b: &mut Bench) -> Vec<(u32, u32)> {
    let seen = b.one();
    seen.seg.opts.sack.iter().map(|(l, r)| (l.since(b.peer_iss), r.since(b.peer_iss))).collect()
}

#[test]
fn of_several_parts_that_were_here_the_first_is_reported() {
    for (begin, expected) in [(1, (1, 101)), (51, (51, 101)), (101, (201, 301))] {
        let mut b = Bench::accepted_sack(1000, 8000);
        for seq in [1, 201, 401] {
            b.inject(ACK, seq, 1, 8000, &pattern(100));
            b.out();
        }
        b.inject(ACK, begin, 1, 8000, &pattern(700 - begin as usize));
        assert_eq!(blocks(&mut b)[0], expected, "from {begin} on");
    }
}

#[test]
fn an_ack_tells_of_as_many_spans_as_fit_and_a_full_segment_has_room_for_them() {
    let config = Config { tcp: TcpConfig { timestamps: true, ..plain().tcp }, ..plain() };
    for (ts, most) in [(None, 4), (Some((1, 0)), 3)] {
        let mut b = Bench::new(config.clone());
        b.listen(8);
        b.handshake(
            TcpOptions { mss: Some(1000), sack_permitted: true, ts, ..TcpOptions::NONE },
            8000,
        );
        for seq in [101, 301, 501, 701, 901] {
            b.inject(ACK, seq, 1, 8000, &pattern(100));
            b.out();
        }
        b.inject(ACK, 1101, 1, 8000, &pattern(100));
        assert_eq!(blocks(&mut b)[..3], [(1101, 1201), (901, 1001), (701, 801)]);
        b.inject(ACK, 1101, 1, 8000, &pattern(100));
        let seen = blocks(&mut b);
        assert_eq!(
            (seen.len(), seen[..2].to_vec()),
            (most, vec![(1101, 1201), (1101, 1201)]),
            "a duplicate is one of them"
        );
        b.send(&pattern(3000));
        for seen in b.out() {
            assert_eq!(seen.seg.opts.sack.len(), most);
            assert!(usize::from(seen.seg.header_len) + seen.data.len() <= 1000 + 20, "{seen:?}");
        }
    }
}

#[test]
fn early_segments_of_one_turn_are_answered_one_by_one_unless_sack_says_it_all() {
    for (mut b, answers) in
        [(Bench::accepted(plain(), 1000, 8000), 3), (Bench::accepted_sack(1000, 8000), 1)]
    {
        let early = [1001, 2001, 3001];
        for seq in early {
            let seg = b.segment(ACK, seq, 1, 8000);
            b.put(seg, &pattern(1000));
        }
        let seen = b.out();
        assert_eq!(seen.len(), answers);
        assert!(seen.iter().all(|s| s.data.is_empty() && b.rel_ack(s) == 1));
        let windows: Vec<u16> = seen.iter().map(|s| s.seg.wnd).collect();
        assert!(windows.windows(2).all(|w| w[0] == w[1]), "{windows:?}");
        b.inject(ACK, 1, 1, 8000, &pattern(1000));
        let seen = b.one();
        assert_eq!(b.rel_ack(&seen), 4001);
    }
}

/// The blocks of each segment that leaves now.
fn told(b: &mut Bench) -> Vec<Vec<(u32, u32)>> {
    let of = |seen: &Seen, b: &Bench| {
        seen.seg.opts.sack.iter().map(|(l, r)| (l.since(b.peer_iss), r.since(b.peer_iss))).collect()
    };
    b.out().iter().map(|seen| of(seen, b)).collect()
}

#[test]
fn a_burst_of_more_spans_than_an_ack_has_room_for_is_told_by_several() {
    let mut b = Bench::accepted_sack(1000, 8000);
    let spans: Vec<(u32, u32)> = (0..10).map(|i| (101 + 200 * i, 201 + 200 * i)).collect();
    for &(seq, _) in &spans {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
    }
    // The oldest first; what came last is the first block of the ACK that leaves last.
    let seen = told(&mut b);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0], [spans[3], spans[2], spans[1], spans[0]]);
    assert_eq!(seen[1], [spans[7], spans[6], spans[5], spans[4]]);
    assert_eq!(seen[2][..2], [spans[9], spans[8]]);
    // What was told is not told again.
    b.inject(ACK, 2101, 1, 8000, &pattern(100));
    assert_eq!(told(&mut b).len(), 1);
    // A span that grows within the turn is told once.
    for seq in [3001, 3101, 3201, 3401, 3301] {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
    }
    assert_eq!(blocks(&mut b)[0], (3001, 3501));
}

/// The peer's window grows by what came in order before a hole that opens in the same turn.
#[test]
fn what_came_before_a_hole_is_acknowledged_in_front_of_it() {
    let mut b = Bench::accepted_sack(1000, 8000);
    // Segments by number come, and of each ACK how many it has and how many blocks.
    let mut answers = |segments: &[u32]| {
        for number in segments {
            b.inject(ACK, 1 + 600 * number, 1, 8000, &pattern(600));
        }
        let seen = b.out();
        let told = seen.iter().map(|seen| {
            (seen.seg.ack.since(b.peer_iss + 1) / 600, seen.seg.opts.sack.iter().count())
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(answers(&[0, 1, 2, 4, 6]), [(3, 0), (3, 2)]);
    // The hole is known: what fills it in part, and what comes behind it, is told together.
    assert_eq!(answers(&[3, 8]), [(5, 2)]);
    assert_eq!(answers(&[5]), [(7, 1)]);
    assert_eq!(answers(&[7]), [(9, 0)]);
    // Of one segment in order no ACK was due.
    assert_eq!(answers(&[9, 11]), [(10, 1)]);
    assert_eq!(answers(&[10]), [(12, 0)]);
    // Nor does an ACK without blocks follow one with some while anything is missing.
    assert_eq!(answers(&[13, 15]), [(12, 2)]);
    assert_eq!(answers(&[12, 16]), [(14, 1)]);
}

#[test]
fn each_of_several_duplicates_of_one_turn_is_told() {
    let mut b = Bench::accepted_sack(1000, 8000);
    for seq in [1, 101, 201, 301, 401, 501, 1001] {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
        b.out();
    }
    // Two that lie side by side are one.
    for seq in [1, 201, 301, 501] {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
    }
    let held = (1001, 1101);
    assert_eq!(told(&mut b), [[(1, 101), held], [(201, 401), held], [(501, 601), held]]);
    b.inject(ACK, 601, 1, 8000, &pattern(400));
    assert_eq!(told(&mut b), [[]], "no duplicate is told twice");
    // The same where nothing is missing.
    for seq in [1, 201] {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
    }
    assert_eq!(told(&mut b), [[(1, 101)], [(201, 301)]]);
}

#[test]
fn spans_and_duplicates_of_one_turn_share_the_room() {
    let config = Config { tcp: TcpConfig { timestamps: true, ..plain().tcp }, ..plain() };
    let mut b = Bench::new(config);
    b.listen(8);
    let ts = Some((1, 0));
    b.handshake(TcpOptions { mss: Some(1000), sack_permitted: true, ts, ..TcpOptions::NONE }, 8000);
    for seq in [1, 101, 201] {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
    }
    b.out();
    for seq in [1, 201, 501, 701, 901, 1101] {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
    }
    let seen = told(&mut b);
    assert!(seen.iter().all(|blocks| blocks.len() <= 3), "{seen:?}");
    assert_eq!(
        (seen[0][0], seen.last().unwrap()[..2].to_vec()),
        ((1, 101), vec![(201, 301), (1101, 1201)])
    );
    for span in [(501, 601), (701, 801), (901, 1001)] {
        assert!(seen.iter().any(|blocks| blocks.contains(&span)), "{span:?} of {seen:?}");
    }
}

#[test]
fn a_round_trip_is_not_measured_on_repeated_segments() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    let rtt = b.info().rtt;
    b.send(b"x");
    b.one();
    b.pass(ms(250));
    b.inject(ACK, 1, 2, 60_000, &[]);
    assert_eq!(b.info().rtt, rtt);
    b.send(b"y");
    b.one();
    b.pass(ms(80));
    b.inject(ACK, 1, 3, 60_000, &[]);
    assert!(b.info().rtt > rtt);
}

#[test]
fn one_loss_in_a_bulk_transfer_needs_no_timeout() {
    for sack in [true, false] {
        let mut c = config();
        c.tcp.sack = sack;
        let mut w = World::new(c, Offloads::default(), ms(10));
        let (a, b) = w.connect(ConnOptions::default());
        let mut seen = 0;
        w.lose = std::boxed::Box::new(move |from, _, packet| {
            seen += u64::from(from == 0 && packet.len() > 1000);
            from == 0 && packet.len() > 1000 && seen == 30
        });
        let data = pattern(300_000);
        assert_eq!(w.transfer(0, a, b, &data, secs(60)), data);
        let t = &w.ends[0].stack.counters().tcp;
        assert_eq!(
            (t.retransmit_timeouts, t.fast_recoveries, t.retransmitted_segs),
            (0, 1, 1),
            "sack {sack}"
        );
    }
}

#[test]
fn a_segment_over_several_holes_fills_them_all() {
    for copies in [true, false] {
        let mut b = Bench::accepted_sack(1000, 60_000);
        if copies {
            b.net.stack.set_buffer_maker(std::boxed::Box::new(|bytes| {
                Some(crate::testing::TestBuf(bytes.to_vec()))
            }));
        }
        let data = pattern(3000);
        let part = |from: usize, to: usize| data[from - 1..to - 1].to_vec();
        for (from, to) in [(1001, 1501), (2001, 2501), (501, 3001)] {
            assert_eq!(b.inject(ACK, from as u32, 1, 60_000, &part(from, to)), None);
        }
        // Without buffers to copy into only the first piece is kept.
        let seen = b.out();
        let blocks = seen.last().unwrap().seg.opts.sack.as_slice().to_vec();
        assert_eq!(
            blocks.iter().any(|(l, r)| (*l, *r) == (b.peer_iss + 501, b.peer_iss + 3001)),
            copies,
            "{blocks:?}"
        );
        b.inject(ACK, 1, 1, 60_000, &part(1, 501));
        if !copies {
            b.inject(ACK, 1501, 1, 60_000, &part(1501, 3001));
            b.inject(ACK, 2501, 1, 60_000, &part(2501, 3001));
        }
        assert_eq!(b.read_all(), data);
        assert_eq!(b.info().unread, 0);
    }
}

#[test]
fn duplicates_are_not_told_when_the_configuration_says_so() {
    let mut config = plain();
    config.tcp.dsack = false;
    let mut b = Bench::new(config);
    b.listen(8);
    b.handshake(TcpOptions { mss: Some(1000), sack_permitted: true, ..TcpOptions::NONE }, 8000);
    for (seq, expected) in
        [(1, vec![]), (1, vec![]), (201, vec![(201, 301)]), (201, vec![(201, 301)])]
    {
        b.inject(ACK, seq, 1, 8000, &pattern(100));
        assert_eq!(blocks(&mut b), expected, "{seq}");
    }
}
