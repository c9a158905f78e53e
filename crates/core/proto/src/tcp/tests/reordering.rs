//! Packets that are late and not lost (RFC 8985).

use super::*;

/// A second of bulk transfer over 20 ms while one packet in twenty comes `late`: the bytes that
/// arrived, and what the sender counted.
fn second_of_bulk(late: Duration, config: Config) -> (usize, counters::TcpCounters, TcpInfo) {
    let mut world = World::new(config, Offloads::default(), ms(10));
    let (a, b) = world.connect(ConnOptions::default());
    world.late = std::boxed::Box::new(
        move |from, n| if from == 0 && n % 20 == 7 { late } else { Duration::ZERO },
    );
    let got = world.transfer_zeros(0, a, b, 40_000_000, secs(1));
    (got, world.ends[0].stack.counters().tcp, world.ends[0].stack.info(a).unwrap())
}

#[test]
fn a_path_that_reorders_a_little_is_nearly_as_fast_as_one_that_does_not() {
    let (straight, ..) = second_of_bulk(Duration::ZERO, config());
    let (got, counted, info) = second_of_bulk(ms(4), config());
    assert!(got > straight / 2, "{got} of {straight} bytes, {counted:?}");
    assert!(counted.fast_recoveries <= 3, "{counted:?}");
    assert!(counted.retransmitted_segs < 20, "{counted:?}");
    assert_eq!((counted.retransmit_timeouts, info.reord_seen > 0), (0, true));
}

#[test]
fn what_is_later_than_the_window_widens_it() {
    let (straight, ..) = second_of_bulk(Duration::ZERO, config());
    let (got, counted, _) = second_of_bulk(ms(15), config());
    assert!(got > straight / 4, "{got} of {straight} bytes, {counted:?}");
    assert_eq!(counted.retransmit_timeouts, 0);
}

/// A second of bulk transfer over 20 ms that loses 3 % and keeps the order, by a draw of its own
/// for each `seed`. `records`: how many connections' sendings can be recorded.
fn reordering_seen_where_there_is_none(congestion: Congestion, seed: u32, records: u32) -> u32 {
    let mut config = config();
    config.limits.sack_maps = 1;
    let mut world = World::new(config, Offloads::default(), ms(10));
    let (a, b) = world.connect(ConnOptions { congestion, ..ConnOptions::default() });
    world.ends[0].stack.tcp.pools.sent = clearway_base::Slab::new(records);
    let mut drawn = seed;
    world.lose = std::boxed::Box::new(move |from, _, _| {
        drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        from == 0 && drawn >> 16 < 1966
    });
    world.transfer_zeros(0, a, b, 40_000_000, secs(1));
    assert!(world.ends[0].stack.counters().tcp.retransmitted_segs > 5);
    world.ends[0].stack.info(a).unwrap().reord_seen
}

#[test]
fn losses_alone_are_never_taken_for_reordering() {
    let all = [Congestion::Reno, Congestion::Cubic, Congestion::Bbr, Congestion::Bbr1];
    for (congestion, seed) in all.into_iter().flat_map(|cc| (1..=8).map(move |seed| (cc, seed))) {
        let seen = reordering_seen_where_there_is_none(congestion, seed, 1);
        assert_eq!(seen, 0, "{congestion:?}, seed {seed}");
    }
    // Without a record too, unless something is sent again for nothing, as it is told then.
    for (congestion, seed) in [Congestion::Reno, Congestion::Cubic].into_iter().zip(1..) {
        let seen = reordering_seen_where_there_is_none(congestion, seed, 0);
        assert_eq!(seen, 0, "{congestion:?}, seed {seed}, without a record");
    }
}

#[test]
fn without_a_free_record_losses_are_counted() {
    let mut config = config();
    config.limits.sack_maps = 1;
    let mut world = World::new(config, Offloads::default(), ms(10));
    let (a, b) = world.connect(ConnOptions::default());
    world.ends[0].stack.tcp.pools.sent = clearway_base::Slab::new(0);
    world.lose = std::boxed::Box::new(|from, n, _| from == 0 && n % 97 == 50);
    let data = pattern(400_000);
    assert_eq!(world.transfer(0, a, b, &data, secs(60)), data);
    let counted = &world.ends[0].stack.counters().tcp;
    assert!(counted.sent_unrecorded > 0 && counted.fast_recoveries > 0, "{counted:?}");
}

/// A hole that one segment follows, whose repair is due within 3 ms.
fn small_hole() -> Bench {
    let mut b = Bench::accepted_sack(1000, 60_000);
    b.send(&pattern(2000));
    b.out();
    b.pass(ms(40));
    b.inject(ACK, 1, 2001, 60_000, &[]);
    b.send(&pattern(3000));
    b.out();
    b.pass(ms(40));
    let mut seg = b.segment(ACK, 1, 2001, 60_000);
    seg.opts.sack.push(b.iss + 3001, b.iss + 4001);
    b.put(seg, &[]);
    b.silent();
    b
}

#[test]
fn a_loss_that_few_segments_follow_is_repaired_when_the_window_has_passed() {
    let mut b = small_hole();
    // The shortest round trip, that of the handshake, took no time: the window is as short as it
    // gets.
    let again = b.pass(ms(30));
    let (at, seen) = &again[0];
    assert!(*at >= ms(1) && *at < ms(3), "after {at:?}");
    assert_eq!((b.rel_seq(seen), seen.data.len()), (2001, 1000));
    assert_eq!(b.counters().retransmit_timeouts, 0);
}

#[test]
fn what_lies_unread_is_heard_before_anything_is_lost_for_want_of_it() {
    let mut b = small_hole();
    let before = b.counters().retransmitted_segs;
    b.set_unread(true);
    assert_eq!(b.pass(ms(3)), [], "it waits");
    b.inject(ACK, 1, 5001, 60_000, &[]);
    b.set_unread(false);
    assert_eq!(b.pass(ms(100)), [], "all had arrived");
    assert_eq!(b.counters().retransmitted_segs, before);
}

#[test]
fn what_is_missing_also_among_the_unread_is_repaired_at_once() {
    let mut b = small_hole();
    b.set_unread(true);
    assert_eq!(b.pass(ms(3)), []);
    b.set_unread(false);
    let again = b.pass(ms(30));
    assert!(again[0].0 < ms(1), "{again:?}");
    assert_eq!(b.rel_seq(&again[0].1), 2001);
}

#[test]
fn a_core_that_is_always_behind_repairs_all_the_same() {
    let mut b = small_hole();
    let begun = b.net.now;
    for _ in 0..20 {
        b.set_unread(true);
        let again = b.pass(Duration::from_micros(500));
        if let Some((_, seen)) = again.first() {
            assert_eq!(b.rel_seq(seen), 2001);
            assert!(b.net.now.since(begun) < ms(6));
            return;
        }
    }
    panic!("nothing was repaired");
}

#[test]
fn a_timeout_waits_for_the_unread_too() {
    let mut b = Bench::accepted_sack(1000, 60_000);
    b.send(&pattern(1000));
    b.out();
    // The answer comes in time, and the core only afterwards.
    b.net.now += secs(5);
    b.set_unread(true);
    b.net.stack.expire(b.net.now);
    b.silent();
    b.inject(ACK, 1, 1001, 60_000, &[]);
    b.set_unread(false);
    assert_eq!(b.pass(secs(20)), []);
    assert_eq!(b.counters().retransmit_timeouts, 0);
}

#[test]
fn what_a_needless_recovery_did_to_the_window_is_taken_back() {
    let mut b = Bench::accepted_sack(1000, 60_000);
    b.send(&pattern(8000));
    b.out();
    let before = b.info().cwnd;
    let sack = |b: &Bench, ack: u32, blocks: &[(u32, u32)]| {
        let mut seg = b.segment(ACK, 1, ack, 60_000);
        for &(l, r) in blocks {
            seg.opts.sack.push(b.iss + l, b.iss + r);
        }
        seg
    };
    for end in [3001, 4001, 5001] {
        let seg = sack(&b, 1, &[(2001, end)]);
        b.put(seg, &[]);
    }
    let seen = b.out();
    assert_eq!(b.rel_seq(&seen[0]), 1);
    assert!(b.info().ssthresh < before && b.info().phase == Phase::Recovery);
    // No more leaves than has arrived (RFC 9937): of the two that are lost, one. Both come after
    // all, and behind them the copy. The end was never taken for lost: it is not sent again (no
    // rescue, RFC 6675 4).
    assert_eq!(seen.len(), 1);
    let seg = sack(&b, 5001, &[(1, 1001)]);
    b.put(seg, &[]);
    b.silent();
    assert!(b.info().cwnd >= before && b.info().phase != Phase::Recovery, "{:?}", b.info());
    assert_eq!(b.info().ssthresh, u32::MAX);
    assert!(b.info().reord_seen > 0);
}

/// Slow start doubles what is in flight in a round trip, whichever way the peer tells of it.
#[test]
fn what_duplicates_tell_of_counts_where_the_path_reorders() {
    let mut b = Bench::accepted_sack(1000, 60_000);
    b.send(&pattern(40_000));
    b.out();
    let (before, sent) = (b.info().cwnd, 10_000);
    let sack = |b: &Bench, ack: u32, block: (u32, u32)| {
        let mut seg = b.segment(ACK, 1, ack, 60_000);
        seg.opts.sack.push(b.iss + block.0, b.iss + block.1);
        seg
    };
    // Nothing says yet that segments overtake one another: a duplicate may tell of a loss.
    let seg = sack(&b, 1, (1001, 2001));
    b.put(seg, &[]);
    assert_eq!(b.info().cwnd, before);
    b.inject(ACK, 1, 2001, 60_000, &[]);
    b.out();
    assert_eq!((b.info().reord_seen, b.info().phase), (1, Phase::Open));
    let before = b.info().cwnd;
    // Now each byte counts once, when it is told of first.
    for end in [4001, 5001] {
        let seg = sack(&b, 2001, (3001, end));
        b.put(seg, &[]);
    }
    assert_eq!(b.info().cwnd, before + 2000);
    b.inject(ACK, 1, 5001, 60_000, &[]);
    assert_eq!(b.info().cwnd, before + 3000);
    b.inject(ACK, 1, sent + 1, 60_000, &[]);
    assert_eq!(b.info().cwnd, before + 8000);
}

#[test]
fn a_recovery_in_which_nothing_was_sent_again_is_taken_back() {
    let mut b = Bench::accepted_sack(1000, 60_000);
    b.send(&pattern(8000));
    b.out();
    let before = b.info().cwnd;
    // What tells of a loss and what fills the hole come in one burst: nothing leaves between them,
    // and so no D-SACK and no echo will ever say that it was needless.
    for end in [3001, 4001, 5001] {
        let mut seg = b.segment(ACK, 1, 1, 60_000);
        seg.opts.sack.push(b.iss + 2001, b.iss + end);
        b.put(seg, &[]);
    }
    assert_eq!(b.info().phase, Phase::Recovery);
    b.inject(ACK, 1, 5001, 60_000, &[]);
    assert!(b.info().cwnd >= before && b.info().phase == Phase::Open, "{:?}", b.info());
    assert_eq!((b.info().ssthresh, b.info().total_retransmits), (u32::MAX, 0));
    assert_eq!(b.counters().losses_undone, 1);
}

#[test]
fn a_duplicate_widens_the_window_also_when_timestamps_took_the_recovery_back_before() {
    let mut b = Bench::new(config());
    b.listen(8);
    b.handshake(
        TcpOptions { mss: Some(1000), sack_permitted: true, ts: Some((5, 0)), ..TcpOptions::NONE },
        60_000,
    );
    let id = b.id();
    let quarters = |b: &Bench| {
        let tcp = &b.net.stack.tcp;
        tcp.open.by_index(id.index()).unwrap().suffered(&tcp.pools).reordering.quarters
    };
    let sack = |b: &Bench, ack: u32, block: (u32, u32)| {
        let mut seg = b.segment(ACK, 1, ack, 60_000);
        seg.opts.sack.push(b.iss + block.0, b.iss + block.1);
        seg
    };
    b.send(&pattern(7904));
    b.out();
    let first = b.stamps;
    b.net.now += ms(20);
    for end in [2965, 3953, 4941] {
        let seg = sack(&b, 1, (1977, end));
        b.put(seg, &[]);
    }
    let again = b.one();
    assert_eq!((b.rel_seq(&again), b.info().phase), (1, Phase::Recovery));
    // What was missing comes: its ACK echoes the first copy.
    b.stamps = first;
    b.inject(ACK, 1, 4941, 60_000, &[]);
    assert_eq!((b.counters().losses_undone, quarters(&b)), (1, 1));
    // And so does the copy.
    let seg = sack(&b, 4941, (1, 989));
    b.put(seg, &[]);
    assert_eq!(quarters(&b), 2);
}

#[test]
fn a_copy_that_is_lost_is_found_out_by_a_later_copy_whatever_stamp_is_echoed() {
    for ts in [None, Some((9, 0))] {
        let mut b = Bench::new(config());
        b.listen(8);
        let mss = Some(1000 + if ts.is_some() { 12 } else { 0 });
        b.handshake(TcpOptions { mss, sack_permitted: true, ts, ..TcpOptions::NONE }, 60_000);
        b.pass(ms(20));
        b.send(&pattern(10_000));
        b.out();
        // What is held out of order is told of with the stamp of what came in order.
        let first = b.stamps;
        let said = |b: &mut Bench, blocks: &[(u32, u32)]| -> Vec<u32> {
            b.pass(ms(10));
            b.stamps = first;
            let mut seg = b.segment(ACK, 1, 1, 60_000);
            for (l, r) in blocks {
                seg.opts.sack.push(b.iss + *l, b.iss + *r);
            }
            b.put(seg, &[]);
            b.out().iter().map(|seen| b.rel_seq(seen)).filter(|at| *at < 8001).collect()
        };
        b.pass(ms(20));
        assert_eq!(said(&mut b, &[(1001, 4001)]), [1], "{ts:?}");
        assert_eq!(said(&mut b, &[(5001, 8001), (1001, 4001)]), [4001], "{ts:?}");
        // The second copy arrives, and the first one does not.
        b.pass(ms(20));
        assert_eq!(said(&mut b, &[(1001, 8001)]), [1], "{ts:?}");
        // It has a whole timeout of its own.
        let rto = b.info().rto;
        b.pass(rto - ms(5));
        assert_eq!(b.counters().retransmit_timeouts, 0, "{ts:?}");
        b.pass(ms(10));
        assert_eq!(b.counters().retransmit_timeouts, 1, "{ts:?}");
    }
}
