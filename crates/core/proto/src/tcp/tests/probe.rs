//! Tail loss probes (RFC 8985 7), and timeouts and recoveries that turn out to have been for
//! nothing (RFC 3522, RFC 4015, RFC 5682).

use super::*;

/// A connection with SACK over a path of 40 ms, with the peer's timestamps perhaps.
fn far(stamps: bool) -> Bench {
    let mut b = if stamps {
        let mut b = Bench::new(config());
        b.listen(8);
        let ts = Some((10_000, 0));
        b.handshake(
            TcpOptions { mss: Some(1012), sack_permitted: true, ts, ..TcpOptions::NONE },
            60_000,
        );
        b
    } else {
        Bench::accepted_sack(1000, 60_000)
    };
    // The handshake took no time; what follows teaches it the round trip.
    for n in 0..20 {
        b.send(&pattern(100));
        b.one();
        b.pass(ms(40));
        b.inject(ACK, 1, 1 + (n + 1) * 100, 60_000, &[]);
    }
    b
}

const BEGIN: u32 = 2001;

fn hear(b: &mut Bench, ack: u32, blocks: &[(u32, u32)]) {
    let mut seg = b.segment(ACK, 1, ack, 60_000);
    for &(l, r) in blocks {
        seg.opts.sack.push(b.iss + l, b.iss + r);
    }
    b.put(seg, &[]);
}

fn range(b: &Bench, seen: &Seen) -> (u32, u32) {
    (b.rel_seq(seen), b.rel_seq(seen) + seen.data.len() as u32)
}

#[test]
fn the_last_segment_of_a_burst_is_sent_again_after_two_round_trips() {
    let mut b = far(false);
    b.send(&pattern(3500));
    assert_eq!(b.out().len(), 4);
    let seen = b.pass(ms(150));
    assert_eq!(seen.len(), 1, "{seen:?}");
    let (at, probe) = &seen[0];
    assert!(*at >= ms(70) && *at <= ms(90), "after {at:?}");
    assert_eq!(range(&b, probe), (BEGIN + 3000, BEGIN + 3500));
    assert_eq!((b.counters().tail_loss_probes, b.counters().retransmit_timeouts), (1, 0));
    // It is no loss yet: the window stays (RFC 8985 7.3).
    assert_eq!((b.info().phase, b.info().ssthresh), (Phase::Open, u32::MAX));
}

#[test]
fn after_a_probe_the_retransmission_timer_runs() {
    let mut b = far(false);
    b.send(&pattern(3000));
    b.out();
    let seen = b.pass(ms(600));
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(range(&b, &seen[0].1).1, BEGIN + 3000);
    assert_eq!(b.rel_seq(&seen[1].1), BEGIN);
    assert!(seen[1].0 - seen[0].0 >= ms(200), "{seen:?}");
    assert_eq!((b.counters().tail_loss_probes, b.counters().retransmit_timeouts), (1, 1));
    assert_eq!(b.info().phase, Phase::Loss);
}

#[test]
fn a_probe_is_new_data_if_there_is_a_segment_of_it() {
    let mut b = far(false);
    // The congestion window is ten segments.
    b.send(&pattern(14_000));
    let first = b.out();
    let end = range(&b, first.last().unwrap()).1;
    let seen = b.pass(ms(150));
    assert_eq!(seen.len(), 1);
    assert_eq!(range(&b, &seen[0].1), (end, end + 1000));
    assert_eq!(b.counters().retransmitted_segs, 0);
    // When it is acknowledged nothing was lost.
    hear(&mut b, end + 1000, &[]);
    assert_eq!(b.info().ssthresh, u32::MAX);
}

#[test]
fn a_segment_alone_leaves_the_peer_time_for_a_delayed_ack() {
    let mut b = far(false);
    b.send(&pattern(500));
    b.out();
    let seen = b.pass(ms(400));
    assert_eq!(seen.len(), 1);
    assert!(seen[0].0 >= ms(220), "{seen:?}");
    assert_eq!((b.counters().tail_loss_probes, b.counters().retransmit_timeouts), (1, 0));
}

#[test]
fn a_fin_alone_waits_as_long_as_any_segment_that_is_alone() {
    let mut b = far(false);
    b.net.stack.shutdown(b.id()).unwrap();
    assert_eq!(b.one().flags(), FIN | ACK);
    let c = b.net.stack.tcp.owned(b.id()).unwrap();
    let wait = c.times.send.since(b.net.now);
    assert!(wait >= ms(220), "nobody is woken in vain before: in {wait:?}");
    let seen = b.pass(ms(400));
    assert_eq!(seen.len(), 1, "{seen:?}");
    let (at, again) = &seen[0];
    assert!(*at >= ms(220), "a FIN has no company that tells sooner: after {at:?}");
    assert_eq!((again.flags(), b.rel_seq(again)), (FIN | ACK, BEGIN));
    // The same FIN behind data that does not fill a window is the end of a burst.
    let mut b = far(false);
    b.send(&pattern(3000));
    b.net.stack.shutdown(b.id()).unwrap();
    assert_eq!(b.out().last().unwrap().flags(), FIN | ACK | Flags::PSH);
    let seen = b.pass(ms(150));
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].0 <= ms(90) && seen[0].1.flags().contains(FIN), "{seen:?}");
}

#[test]
fn what_a_probe_brings_back_shows_the_holes_before_it() {
    let mut b = far(false);
    b.send(&pattern(4000));
    b.out();
    b.pass(ms(100));
    // The last two of four were lost; the probe is the last one.
    hear(&mut b, BEGIN + 2000, &[(BEGIN + 3000, BEGIN + 4000)]);
    let seen = b.one();
    assert_eq!(range(&b, &seen), (BEGIN + 2000, BEGIN + 3000));
    assert_eq!((b.counters().retransmit_timeouts, b.counters().fast_recoveries), (0, 1));
}

#[test]
fn a_probe_that_repaired_a_loss_is_answered_by_congestion_control() {
    let mut b = far(false);
    b.send(&pattern(3000));
    b.out();
    b.pass(ms(100));
    let before = b.info().cwnd;
    // All arrives, and nothing twice.
    hear(&mut b, BEGIN + 3000, &[]);
    b.send(&pattern(1000));
    b.out();
    hear(&mut b, BEGIN + 4000, &[]);
    assert!(b.info().ssthresh < u32::MAX && b.info().cwnd < before, "{:?}", b.info());
    assert_eq!((b.counters().tail_loss_repairs, b.info().phase), (1, Phase::Open));
}

#[test]
fn a_probe_whose_segment_had_come_costs_nothing() {
    for twice in [true, false] {
        let mut b = far(false);
        b.send(&pattern(3000));
        b.out();
        b.pass(ms(100));
        hear(&mut b, BEGIN + 3000, &[]);
        if twice {
            // The peer reports the second copy (RFC 2883).
            hear(&mut b, BEGIN + 3000, &[(BEGIN + 2000, BEGIN + 3000)]);
        }
        b.send(&pattern(1000));
        b.out();
        hear(&mut b, BEGIN + 4000, &[]);
        assert_eq!(b.info().ssthresh == u32::MAX, twice);
        assert_eq!(b.counters().tail_loss_repairs, u64::from(!twice));
    }
}

#[test]
fn without_sack_or_when_told_so_nothing_probes() {
    for sack in [true, false] {
        let mut config = plain();
        config.tcp.tail_loss_probe = false;
        let mut b = if sack {
            let mut b = Bench::new(config);
            b.listen(8);
            b.handshake(
                TcpOptions { mss: Some(1000), sack_permitted: true, ..TcpOptions::NONE },
                60_000,
            );
            b
        } else {
            Bench::accepted(plain(), 1000, 60_000)
        };
        b.send(&pattern(3000));
        b.out();
        b.pass(ms(400));
        assert_eq!((b.counters().tail_loss_probes, b.counters().retransmit_timeouts), (0, 1));
    }
}

#[test]
fn an_ack_that_echoes_an_earlier_time_takes_a_timeout_back() {
    let mut b = far(true);
    b.send(&pattern(5000));
    b.out();
    let before = b.info();
    let stamps = b.stamps;
    let probes = b.pass(ms(100));
    assert_eq!(probes.len(), 1);
    let seen = b.pass(ms(400));
    assert!(!seen.is_empty() && b.info().phase == Phase::Loss && b.info().cwnd == 1000);
    // The ACK of the first copies comes after all: it echoes when they left.
    b.stamps = stamps;
    hear(&mut b, BEGIN + 5000, &[]);
    let info = b.info();
    assert_eq!((info.phase, info.ssthresh), (Phase::Open, before.ssthresh));
    assert!(info.cwnd >= before.cwnd, "{info:?}");
    assert_eq!((b.counters().losses_undone, b.counters().retransmit_timeouts), (1, 1));
}

#[test]
fn an_ack_that_echoes_the_repetition_leaves_a_timeout_as_it_is() {
    let mut b = far(true);
    b.send(&pattern(5000));
    b.out();
    b.pass(ms(500));
    // `out` has kept our newest timestamp, that of the repetition.
    hear(&mut b, BEGIN + 1000, &[]);
    let seen = b.out();
    assert_eq!(b.rel_seq(&seen[0]), BEGIN + 1000);
    assert!(b.info().ssthresh < u32::MAX);
    assert_eq!((b.info().phase, b.counters().losses_undone), (Phase::Loss, 0));
}

#[test]
fn originals_that_arrive_after_a_timeout_show_that_it_was_for_nothing() {
    // Without timestamps, and with a first ACK for no more than was sent again (RFC 5682 3.1).
    let mut b = far(false);
    b.send(&pattern(5000));
    b.out();
    let before = b.info();
    b.pass(ms(400));
    assert_eq!((b.info().phase, b.info().cwnd), (Phase::Loss, 1000));
    b.send(&pattern(3000));
    b.silent();
    hear(&mut b, BEGIN + 1000, &[]);
    // Step 2.b: new data leaves, nothing more is repeated.
    let seen = b.out();
    assert!(!seen.is_empty() && seen.iter().all(|s| b.rel_seq(s) >= BEGIN + 5000), "{seen:?}");
    hear(&mut b, BEGIN + 2000, &[]);
    let info = b.info();
    assert_eq!((info.phase, info.ssthresh), (Phase::Open, before.ssthresh));
    assert_eq!(b.counters().losses_undone, 1);
}

#[test]
fn after_a_timeout_less_than_a_segment_of_new_data_keeps_no_repetition_back() {
    // Nagle's algorithm holds new data back that would show whether the timeout was for nothing
    // (RFC 5682 3.1, step 2.b).
    let mut b = Bench::new(plain());
    let spec = ListenSpec {
        table: Table(0),
        local: Endpoint::new(Addr::ANY_V6, PORT),
        v6_only: false,
        backlog: 8,
        token: 7,
        options: ConnOptions::default(),
    };
    b.listener = Some(b.net.stack.listen(spec).unwrap());
    b.handshake(TcpOptions { mss: Some(1000), sack_permitted: true, ..TcpOptions::NONE }, 60_000);
    b.send(&pattern(5500));
    b.out();
    b.pass(ms(600));
    assert_eq!(b.info().phase, Phase::Loss);
    b.send(&pattern(300));
    b.silent();
    hear(&mut b, 1001, &[]);
    let seen = b.out();
    assert!(seen.first().is_some_and(|s| range(&b, s) == (1001, 2001)), "{seen:?}");
}

#[test]
fn a_timeout_for_nothing_says_nothing_of_the_order() {
    let mut b = far(true);
    b.send(&pattern(5000));
    b.out();
    let stamps = b.stamps;
    b.pass(ms(500));
    assert_eq!(b.info().phase, Phase::Loss);
    b.stamps = stamps;
    hear(&mut b, BEGIN + 5000, &[]);
    assert_eq!((b.counters().losses_undone, b.info().reord_seen), (1, 0));
}

#[test]
fn a_timeout_with_losses_goes_on_repairing_them() {
    let mut b = far(false);
    b.send(&pattern(5000));
    b.out();
    b.pass(ms(400));
    b.send(&pattern(3000));
    hear(&mut b, BEGIN + 1000, &[]);
    let seen = b.out();
    let new = range(&b, &seen[0]);
    // Step 3.a: the peer holds the new data and still not the old.
    hear(&mut b, BEGIN + 1000, &[new]);
    let seen = b.out();
    assert_eq!(b.rel_seq(&seen[0]), BEGIN + 1000, "{seen:?}");
    assert_eq!((b.info().phase, b.counters().losses_undone), (Phase::Loss, 0));
}

#[test]
fn an_ack_that_echoes_an_earlier_time_takes_a_recovery_back() {
    let mut b = far(true);
    b.send(&pattern(6000));
    b.out();
    let (before, stamps) = (b.info(), b.stamps);
    b.pass(ms(41));
    for end in [2000, 3000, 4000] {
        hear(&mut b, BEGIN, &[(BEGIN + 1000, BEGIN + end)]);
    }
    let seen = b.out();
    assert_eq!(b.rel_seq(&seen[0]), BEGIN);
    assert_eq!(b.info().phase, Phase::Recovery);
    b.pass(ms(5));
    b.stamps = stamps;
    hear(&mut b, BEGIN + 4000, &[]);
    let info = b.info();
    assert_eq!((info.phase, info.ssthresh), (Phase::Open, before.ssthresh));
    assert!(info.cwnd >= before.cwnd && info.reord_seen > 0, "{info:?}");
}
