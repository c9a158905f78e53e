//! Timers: retransmission, delayed ACK, persist, keepalive, user timeout.

use super::*;

fn established() -> Bench {
    Bench::accepted(plain(), 1000, 8000)
}

#[test]
fn lost_data_is_repeated_with_backoff_until_the_connection_fails() {
    let mut config = plain();
    config.tcp.retries = 4;
    let mut b = Bench::accepted(config, 1000, 8000);
    b.send(b"anybody?");
    b.one();
    let again = b.pass(secs(300));
    assert_eq!(again.len(), 4);
    let times: Vec<u64> = again.iter().map(|(at, _)| at.as_millis() / 100 * 100).collect();
    assert_eq!(times, [200, 600, 1400, 3000]);
    assert!(again.iter().all(|(_, s)| s.data == b"anybody?"));
    assert_eq!(b.events(), [ConnEvents::FAILED]);
    assert_eq!(b.net.stack.failure(b.id()), Some(Failure::TimedOut));
    assert_eq!(b.counters().retransmit_timeouts, 4);
}

#[test]
fn the_first_timeouts_of_little_data_do_not_double_where_the_owner_wants_it_so() {
    let mut config = plain();
    config.tcp.retries = 9;
    let mut b = Bench::accepted(config, 1000, 8000);
    let options = b.net.stack.options(b.id()).unwrap();
    b.net.stack.set_options(b.id(), ConnOptions { linear_timeouts: true, ..options });
    b.send(b"a game");
    b.one();
    let times: Vec<u64> =
        b.pass(secs(300)).iter().map(|(at, _)| at.as_millis() / 100 * 100).collect();
    // Six by the same timeout, and from there on as always.
    assert_eq!(times, [200, 400, 600, 800, 1000, 1200, 1400, 1800, 2600]);
}

#[test]
fn a_sample_ends_the_backoff_and_an_ack_for_a_repetition_does_not() {
    let mut b = established();
    b.send(b"first");
    b.one();
    b.pass(secs(1));
    assert_eq!(b.info().backoff, 2);
    // Whether this ACK is for the first copy or the last, nobody knows (Karn; RFC 6298 3 and 5).
    b.inject(ACK, 1, 6, 8000, &[]);
    assert_eq!((b.info().backoff, b.info().unacked, b.info().phase), (2, 0, Phase::Open));
    assert_eq!(b.net.stack.next_event(), None);
    assert!(b.pass(secs(10)).is_empty());
    b.send(b"second");
    b.one();
    b.inject(ACK, 1, 12, 8000, &[]);
    assert_eq!((b.info().backoff, b.info().unacked), (0, 0));
}

#[test]
fn the_user_timeout_ends_a_connection_that_makes_no_progress() {
    let mut b = established();
    let id = b.id();
    let options = ConnOptions { user_timeout: secs(5), ..b.net.stack.options(id).unwrap() };
    b.net.stack.set_options(id, options);
    b.send(b"anybody?");
    b.one();
    let before = b.net.now;
    while b.net.stack.failure(id).is_none() {
        b.pass(ms(100));
        assert!(b.net.now.since(before) <= ms(5200));
    }
    assert!(b.net.now.since(before) >= secs(5));
    assert_eq!(b.net.stack.failure(id), Some(Failure::UserTimeout));
}

#[test]
fn a_shut_window_is_probed_for_as_long_as_the_peer_answers() {
    let mut config = plain();
    config.tcp.retries = 3;
    let mut b = Bench::accepted(config, 1000, 0);
    b.send(b"waiting");
    b.silent();
    let mut answered = 0;
    let start = b.net.now;
    while b.net.now.since(start) < secs(2000) {
        let wait = b.net.stack.next_deadline().since(b.net.now);
        for (_, probe) in b.pass(wait) {
            assert_eq!((b.rel_seq(&probe), probe.data.len()), (0, 0));
            b.inject(ACK, 1, 1, 0, &[]);
            b.silent();
            answered += 1;
        }
        assert_eq!(b.state(), State::Established);
    }
    // 2,000 seconds with a backoff to 120 seconds.
    assert!((15..40).contains(&answered), "{answered}");
    b.inject(ACK, 1, 1, 8000, &[]);
    assert_eq!(b.one().data, b"waiting");
}

#[test]
fn a_shut_window_without_answers_ends_like_any_silence() {
    let mut config = plain();
    config.tcp.retries = 3;
    let mut b = Bench::accepted(config, 1000, 0);
    b.send(b"waiting");
    b.silent();
    let probes = b.pass(secs(600));
    assert_eq!(probes.len(), 3);
    assert_eq!(b.net.stack.failure(b.id()), Some(Failure::TimedOut));
}

#[test]
fn the_user_timeout_ends_a_shut_window_though_the_peer_answers() {
    let mut b = Bench::accepted(plain(), 1000, 0);
    let id = b.id();
    let options = ConnOptions { user_timeout: secs(30), ..b.net.stack.options(id).unwrap() };
    b.net.stack.set_options(id, options);
    b.send(b"waiting");
    b.silent();
    for _ in 0..100 {
        for _ in b.pass(ms(500)) {
            b.inject(ACK, 1, 1, 0, &[]);
        }
    }
    assert_eq!(b.net.stack.failure(id), Some(Failure::UserTimeout));
}

#[test]
fn a_small_window_is_used_only_after_a_while() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    b.send(&pattern(8000));
    b.out();
    b.inject(ACK, 1, 8001, 100, &[]);
    b.send(&pattern(8000));
    b.silent();
    let forced = b.pass(secs(1));
    assert_eq!(forced[0].1.data.len(), 100);
}

#[test]
fn a_window_that_stays_small_is_waited_for_once() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    b.send(&pattern(8000));
    b.out();
    b.inject(ACK, 1, 8001, 600, &[]);
    b.send(&pattern(4000));
    b.silent();
    assert_eq!(b.pass(secs(1))[0].1.data.len(), 600);
    // Whatever is half of the new largest one at least leaves at once.
    for (acked, wnd) in [(8601, 600), (9201, 300)] {
        b.inject(ACK, 1, acked, wnd, &[]);
        assert_eq!(b.one().data.len(), usize::from(wnd));
    }
    // Crumbs still wait, and so does what is less than half of a window that was larger meanwhile.
    b.inject(ACK, 1, 9501, 200, &[]);
    b.silent();
    b.inject(ACK, 1, 9501, 900, &[]);
    assert_eq!(b.one().data.len(), 900);
    b.inject(ACK, 1, 10_401, 400, &[]);
    b.silent();
}

#[test]
fn keepalive_probes_a_silent_peer_and_gives_up() {
    let mut b = established();
    let id = b.id();
    let keepalive = Keepalive { idle: secs(10), interval: secs(2), count: 3 };
    let options = ConnOptions { keepalive: Some(keepalive), ..b.net.stack.options(id).unwrap() };
    b.net.stack.set_options(id, options);
    b.out();
    let first = b.pass(secs(11));
    assert_eq!((first.len(), b.rel_seq(&first[0].1)), (1, 0));
    assert_eq!(first[0].0.as_millis() / 1000, 10);
    b.inject(ACK, 1, 1, 8000, &[]);
    let next = b.pass(secs(11));
    assert_eq!(next.len(), 1);
    b.inject(ACK, 1, 1, 8000, &[]);
    let last = b.pass(secs(30));
    // Three probes, then a reset.
    assert_eq!(last.len(), 4);
    assert_eq!(last[3].1.flags(), RST | ACK);
    assert_eq!(b.net.stack.failure(id), Some(Failure::KeepaliveTimedOut));
    assert_eq!(b.events(), [ConnEvents::FAILED]);
}

#[test]
fn acks_are_quick_at_first_and_then_delayed_for_every_second_segment() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let mut seq = 1;
    for _ in 0..16 {
        b.inject(ACK, seq, 1, 8000, &pattern(1000));
        b.one();
        seq += 1000;
    }
    b.inject(ACK, seq, 1, 8000, &pattern(1000));
    b.silent();
    b.inject(ACK, seq + 1000, 1, 8000, &pattern(1000));
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), seq + 2000);
    b.inject(ACK, seq + 2000, 1, 8000, &pattern(1000));
    b.silent();
    let late = b.pass(ms(45));
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].0.as_millis(), 40);
}

/// A connection whose first 16 segments have come, and where the next one comes from.
fn with_delayed_acks() -> (Bench, u32) {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    for i in 0..16 {
        b.inject(ACK, 1 + i * 1000, 1, 8000, &pattern(1000));
        b.one();
    }
    b.inject(ACK, 16_001, 1, 8000, &pattern(1000));
    b.silent();
    b.inject(ACK, 17_001, 1, 8000, &pattern(1000));
    b.one();
    (b, 18_001)
}

#[test]
fn behind_a_hole_and_a_duplicate_16_acks_are_not_delayed() {
    for duplicate in [false, true] {
        let (mut b, mut seq) = with_delayed_acks();
        if duplicate {
            b.inject(ACK, seq - 1000, 1, 8000, &pattern(1000));
            b.one();
        } else {
            b.inject(ACK, seq + 1000, 1, 8000, &pattern(1000));
            b.one();
            b.inject(ACK, seq, 1, 8000, &pattern(1000));
            b.one();
            seq += 2000;
        }
        for _ in 0..16 {
            b.inject(ACK, seq, 1, 8000, &pattern(1000));
            let ack = b.one();
            assert_eq!(b.rel_ack(&ack), seq + 1000);
            seq += 1000;
        }
        b.inject(ACK, seq, 1, 8000, &pattern(1000));
        b.silent();
    }
}

#[test]
fn who_only_sends_and_waits_for_a_delayed_ack_does_not_wait_for_the_next_ones() {
    let (mut b, seq) = with_delayed_acks();
    b.inject(ACK, seq, 1, 8000, &pattern(1000));
    b.silent();
    assert_eq!(b.pass(ms(45)).len(), 1);
    for i in 1..=16 {
        b.inject(ACK, seq + i * 1000, 1, 8000, &pattern(1000));
        b.one();
    }
    // It has a second segment to send again, and where one of ours takes ACKs along they wait for
    // that.
    b.inject(ACK, seq + 17_000, 1, 8000, &pattern(1000));
    b.silent();
    b.send(b"x");
    b.one();
    b.inject(ACK, seq + 18_000, 2, 8000, &pattern(1000));
    b.silent();
    assert_eq!(b.pass(ms(45)).len(), 1);
    b.inject(ACK, seq + 19_000, 2, 8000, &pattern(1000));
    b.silent();
}

#[test]
fn joined_segments_count_as_many() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    for i in 0..16 {
        b.inject(ACK, 1 + i * 1000, 1, 8000, &pattern(1000));
        b.one();
    }
    let seg = b.segment(ACK, 16_001, 1, 8000);
    let packet = tcp_packet(PEER, US, &seg, &pattern(3000));
    let meta = RxMeta { iface: Iface(0), segment_size: 1000, ..RxMeta::default() };
    b.net.ingest_all(&[(meta, packet)]);
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), 19_001);
}

#[test]
fn after_a_long_pause_the_window_is_the_first_one_again() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    let mut at = 1;
    b.send(&pattern(100_000));
    while b.info().unsent > 0 {
        at += b.out().iter().map(|s| s.data.len() as u32).sum::<u32>();
        b.inject(ACK, 1, at, 60_000, &[]);
    }
    at += b.out().iter().map(|s| s.data.len() as u32).sum::<u32>();
    b.inject(ACK, 1, at, 60_000, &[]);
    let grown = b.info().cwnd;
    assert!(grown > 14_000, "{grown}");
    b.pass(secs(10));
    b.send(&pattern(50_000));
    let burst: usize = b.out().iter().map(|s| s.data.len()).sum();
    assert_eq!(burst, 10_000);
}

#[test]
fn progress_starts_the_retransmission_timer_over() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    b.send(&pattern(2000));
    b.out();
    b.pass(ms(150));
    b.inject(ACK, 1, 1001, 60_000, &[]);
    // RFC 6298 5.3: a whole timeout from the ACK on, which comes later than one from the sending.
    assert!(b.pass(ms(190)).is_empty());
    let again = b.pass(secs(2));
    assert_eq!(b.rel_seq(&again[0].1), 1001);
}

#[test]
fn keepalive_is_off_unless_asked_for_and_then_waits_two_hours() {
    let mut b = established();
    let id = b.id();
    assert!(b.pass(secs(100_000)).is_empty());
    let on =
        ConnOptions { keepalive: Some(Keepalive::default()), ..b.net.stack.options(id).unwrap() };
    b.net.stack.set_options(id, on);
    b.out();
    b.inject(ACK, 1, 1, 8000, &[]);
    assert!(b.pass(secs(7199)).is_empty());
    assert_eq!(b.pass(secs(2)).len(), 1);
}

#[test]
fn after_a_long_pause_the_window_stays_when_the_configuration_says_so() {
    let mut config = plain();
    config.tcp.slow_start_after_idle = false;
    let mut b = Bench::accepted(config, 1000, 60_000);
    let mut at = 1;
    b.send(&pattern(100_000));
    while at <= 100_000 {
        at += b.out().iter().map(|s| s.data.len() as u32).sum::<u32>();
        b.inject(ACK, 1, at, 60_000, &[]);
    }
    let grown = b.info().cwnd;
    assert!(grown > 14_000, "{grown}");
    b.pass(secs(10));
    b.send(&pattern(10_000));
    b.out();
    assert_eq!(b.info().cwnd, grown);
}

#[test]
fn the_average_follows_a_round_trip_that_grows_with_a_queue() {
    let mut w = World::with_room(config(), Offloads::default(), ms(1), 4 << 20);
    let (a, b) = w.connect(ConnOptions::default());
    // A queue that never overflows: what is in flight is bounded by the room at both ends.
    w.link = Some(Link { bytes_per_second: 12_500_000, queue: secs(10) });
    w.transfer(0, a, b, &std::vec![0; 40_000_000], secs(3));
    let (info, counted) = (w.ends[0].stack.info(a).unwrap(), w.ends[0].stack.counters().tcp);
    let waits = Duration::from_nanos(u64::from(info.unacked) * 80);
    assert!(waits > ms(80), "{info:?}");
    let rtt = info.rtt;
    assert!(rtt > waits.per(2) && rtt < waits.times(2), "{rtt:?} where {waits:?} are in flight");
    assert_eq!((counted.tail_loss_probes, counted.retransmitted_segs), (0, 0));
}

#[test]
fn what_the_congestion_window_holds_back_does_not_wait_for_its_pacing() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    let id = b.id();
    let options = b.net.stack.options(id).unwrap();
    b.net.stack.set_options(id, ConnOptions { max_pacing_rate: Some(1_000_000), ..options });
    b.send(&pattern(20_000));
    // Two segments at once, and then one for each millisecond.
    let mut left = b.out().len();
    assert!((1..=4).contains(&left), "{left}");
    while left < 10 {
        let wait = b.net.stack.next_deadline().since(b.net.now);
        assert!(wait <= ms(4), "{wait:?} with {left} sent");
        left += b.pass(wait).len();
    }
    // There is room for 600 bytes, which is no segment.
    b.inject(ACK, 1, 301, 60_000, &[]);
    assert_eq!((b.out().len(), b.info().cwnd), (0, 10_300));
    let wait = b.net.stack.next_deadline().since(b.net.now);
    assert!(wait >= ms(100), "only an ACK lets more out: {wait:?}");
    b.inject(ACK, 1, 2301, 60_000, &[]);
    let at_once = b.out().len();
    assert!(at_once + b.pass(ms(5)).len() > 0);
}

/// The owner of the stack may leave it to the timers.
#[test]
fn what_is_in_flight_or_written_when_its_address_is_gone_times_out() {
    for (sack, in_flight) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut b = match sack {
            true => Bench::accepted_sack(1000, 60_000),
            false => Bench::accepted(plain(), 1000, 60_000),
        };
        let id = b.id();
        let local = b.net.stack.local(id).unwrap().addr;
        if in_flight {
            b.send(&pattern(5_000));
            b.out();
        }
        b.net.stack.remove_address(Iface(0), local);
        b.send(&pattern(5_000));
        b.silent();
        let seen = b.pass(secs(500));
        assert_eq!((seen.len(), b.net.stack.failure(id)), (0, None));
        b.pass(secs(700));
        let state = (b.net.stack.running_timer(id), b.info());
        assert_eq!(
            b.net.stack.failure(id),
            Some(Failure::TimedOut),
            "{sack} {in_flight} {state:?}"
        );
    }
}

#[test]
fn what_was_written_without_an_address_leaves_when_it_is_back() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    let local = b.net.stack.local(b.id()).unwrap().addr;
    b.net.stack.remove_address(Iface(0), local);
    b.send(&pattern(5_000));
    b.silent();
    assert_eq!(b.pass(secs(100)).len(), 0);
    let cidr = clearway_wire::Cidr::new(local, 24).unwrap();
    b.net.stack.add_address(b.net.now, Iface(0), cidr).unwrap();
    let seen = b.pass(secs(60));
    assert!(seen.iter().any(|(_, sent)| sent.data.len() == 1000), "{}", seen.len());
    b.inject(ACK, 1, 5_001, 60_000, &[]);
    assert_eq!((b.info().retransmits, b.info().unsent), (0, 0));
}
