//! Closing, in every order.

use super::*;

fn established() -> Bench {
    Bench::accepted(plain(), 1000, 8000)
}

#[test]
fn we_close_first_and_wait() {
    let mut b = established();
    let id = b.id();
    b.net.stack.shutdown(id).unwrap();
    let fin = b.one();
    assert_eq!((fin.flags(), b.rel_seq(&fin)), (FIN | ACK, 1));
    assert_eq!(b.state(), State::FinWait1);
    assert_eq!(b.net.stack.send(id, b"x"), Err(SendError::Closed));
    b.inject(ACK, 1, 2, 8000, &[]);
    assert_eq!(b.state(), State::FinWait2);
    b.inject(ACK, 1, 2, 8000, b"still talking");
    assert_eq!(b.read_all(), b"still talking");
    b.out();
    b.inject(FIN | ACK, 14, 2, 8000, &[]);
    assert_eq!(b.state(), State::TimeWait);
    let ack = b.one();
    assert_eq!((ack.flags(), b.rel_ack(&ack)), (ACK, 15));
    assert!(b.events().last().unwrap().has(ConnEvents::PEER_CLOSED | ConnEvents::CLOSED));
    assert_eq!(b.net.stack.tcp.time_wait.len(), 1);
    assert!(b.pass(secs(61)).is_empty());
    assert_eq!(b.net.stack.tcp.time_wait.len(), 0);
    b.net.stack.close(id);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
    assert_eq!(b.net.stack.state(id), State::Closed);
}

#[test]
fn the_peer_closes_first_and_we_may_go_on() {
    let mut b = established();
    let id = b.id();
    b.inject(FIN | ACK, 1, 1, 8000, b"last");
    assert_eq!(b.state(), State::CloseWait);
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), 6);
    assert!(b.net.stack.peer_closed(id));
    assert_eq!(b.read_all(), b"last");
    b.send(b"more");
    assert_eq!(b.one().data, b"more");
    b.inject(ACK, 6, 5, 8000, &[]);
    b.net.stack.close(id);
    let fin = b.one();
    assert_eq!((fin.flags(), b.rel_seq(&fin)), (FIN | ACK, 5));
    b.inject(ACK, 6, 6, 8000, &[]);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
    assert_eq!(b.net.stack.tcp.flows.len(), 0);
    b.silent();
}

#[test]
fn both_close_at_once() {
    let mut b = established();
    let id = b.id();
    b.net.stack.shutdown(id).unwrap();
    b.one();
    b.inject(FIN | ACK, 1, 1, 8000, &[]);
    assert_eq!(b.state(), State::Closing);
    let ack = b.one();
    assert_eq!((ack.flags(), b.rel_seq(&ack), b.rel_ack(&ack)), (ACK, 2, 2));
    b.inject(ACK, 2, 2, 8000, &[]);
    assert_eq!(b.state(), State::TimeWait);
    b.silent();
}

#[test]
fn one_segment_acknowledges_our_fin_and_brings_the_peers() {
    let mut b = established();
    let id = b.id();
    b.net.stack.close(id);
    b.one();
    b.inject(FIN | ACK, 1, 2, 8000, &[]);
    assert_eq!(b.one().flags(), ACK);
    assert_eq!((b.net.stack.tcp.open.len(), b.net.stack.tcp.time_wait.len()), (0, 1));
}

#[test]
fn what_was_written_leaves_before_the_fin_and_the_fin_rides_on_the_last_segment() {
    let mut b = established();
    let id = b.id();
    b.send(&pattern(1500));
    b.net.stack.close(id);
    let seen = b.out();
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].flags(), seen[0].data.len()), (ACK, 1000));
    assert_eq!((seen[1].flags(), seen[1].data.len()), (FIN | PSH | ACK, 500));
}

#[test]
fn a_lost_fin_is_repeated() {
    let mut b = established();
    let id = b.id();
    b.net.stack.close(id);
    let fin = b.one();
    let again = b.pass(secs(1));
    assert!(!again.is_empty());
    assert!(again.iter().all(|(_, s)| s.seg == fin.seg));
}

#[test]
fn closing_with_unread_bytes_resets() {
    let mut b = established();
    let id = b.id();
    b.inject(ACK, 1, 1, 8000, b"unread");
    b.net.stack.close(id);
    let reset = b.one();
    assert_eq!((reset.flags(), b.rel_seq(&reset)), (RST | ACK, 1));
    assert_eq!((b.net.stack.tcp.open.len(), b.net.stack.tcp.flows.len()), (0, 0));
}

/// Lets go of a connection in the ways that end with a reset, after `write`; what left, payload
/// lengths and flags.
fn last_words(wnd: u16, write: impl Fn(&mut Bench)) -> [Vec<(usize, Flags)>; 3] {
    let ways: [fn(&mut Bench, ConnId, u16); 3] = [
        |b, id, wnd| {
            b.inject(ACK, 1, 1, wnd, b"unread");
            b.net.stack.close(id);
        },
        |b, id, _| b.net.stack.close_with_reset(id),
        // What comes after the close finds that nothing has left yet.
        |b, id, wnd| {
            b.net.stack.close(id);
            assert_eq!(b.inject(ACK, 1, 1, wnd, b"late"), Some(Drop::TcpAfterClose));
        },
    ];
    ways.map(|let_go| {
        let mut b = Bench::accepted(plain(), 1000, wnd);
        let id = b.id();
        write(&mut b);
        b.inject(ACK, 1, 1, wnd, &[]);
        let_go(&mut b, id, wnd);
        let left = b
            .out()
            .iter()
            .map(|seen| (seen.data.len(), seen.flags().without(Flags::PSH)))
            .collect();
        b.silent();
        assert_eq!((b.net.stack.tcp.open.len(), b.net.stack.tcp.flows.len()), (0, 0));
        left
    })
}

#[test]
fn what_was_written_leaves_before_the_reset_of_a_close() {
    let [unread, abrupt, late] = last_words(8000, |b| {
        b.send(&[7; 1500]);
    });
    assert_eq!(unread, [(1000, ACK), (500, ACK), (0, RST | ACK)]);
    assert_eq!(abrupt, unread);
    assert_eq!(late, [(1000, ACK), (500, ACK | FIN), (0, RST | ACK)], "its FIN was due");
}

#[test]
fn nothing_is_held_back_for_company_before_the_reset_of_a_close() {
    let [unread, abrupt, _] = last_words(8000, |b| {
        let id = b.id();
        b.net.stack.set_options(id, ConnOptions { cork: true, ..ConnOptions::default() });
        b.send(b"smaller");
        b.silent();
    });
    assert_eq!(unread, [(7, ACK), (0, RST | ACK)]);
    assert_eq!(abrupt, unread);
}

#[test]
fn no_more_than_the_window_leaves_before_the_reset_of_a_close() {
    let [unread, abrupt, _] = last_words(1300, |b| {
        b.send(&[7; 5000]);
    });
    assert_eq!(unread, [(650, ACK), (650, ACK), (0, RST | ACK)]);
    let [odd, _, _] = last_words(1301, |b| {
        b.send(&[7; 5000]);
    });
    assert_eq!(odd, [(650, ACK), (650, ACK), (1, ACK), (0, RST | ACK)]);
    assert_eq!(abrupt, unread);
    let [_, shut, _] = last_words(0, |b| {
        b.send(&[7; 5000]);
    });
    assert_eq!(shut, [(0, RST | ACK)]);
}

/// Writes 25,000 bytes, which the peer's window takes and the congestion window does not, and
/// closes with an unread byte. What left: ten segments.
fn closed_with_more_than_the_congestion_window() -> Bench {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    let id = b.id();
    b.send(&[7; 25_000]);
    b.inject(ACK, 1, 1, 60_000, b"unread");
    b.net.stack.close(id);
    let first: Vec<_> =
        b.out().iter().map(|seen| (seen.data.len(), seen.flags().contains(RST))).collect();
    assert_eq!(first, [(1000, false); 10]);
    b.silent();
    b
}

#[test]
fn the_reset_of_a_close_waits_for_what_the_congestion_window_holds_back() {
    let mut b = closed_with_more_than_the_congestion_window();
    let (mut acked, mut resets) = (10_000, 0);
    while resets == 0 {
        assert!(acked <= 25_000, "all has left, and no reset behind it");
        b.inject(ACK, 7, 1 + acked, 60_000, &[]);
        let out = b.out();
        acked += out.iter().map(|seen| seen.data.len() as u32).sum::<u32>();
        resets = out.iter().filter(|seen| seen.flags().contains(RST)).count();
        assert!(out.last().is_some_and(|last| (resets == 1) == last.flags().contains(RST)));
    }
    assert_eq!((acked, b.net.stack.tcp.open.len()), (25_000, 0));
}

#[test]
fn a_loss_before_the_reset_of_a_close_is_repeated() {
    let mut b = closed_with_more_than_the_congestion_window();
    let again = b.pass(secs(1));
    assert!(
        again.iter().any(|(_, seen)| seen.data.len() == 1000),
        "the first segment once more: {}",
        again.len()
    );
    assert!(again.iter().all(|(_, seen)| !seen.flags().contains(RST)));
}

#[test]
fn a_peer_that_shuts_its_window_gets_the_reset_of_a_close_at_once() {
    let mut b = closed_with_more_than_the_congestion_window();
    b.inject(ACK, 7, 10_001, 0, &[]);
    assert_eq!(b.one().flags(), RST | ACK);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
}

#[test]
fn what_leaves_before_a_reset_waits_for_room_in_the_device() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let id = b.id();
    b.send(&[7; 3000]);
    b.net.stack.close_with_reset(id);
    b.net.sink.room = Some(2);
    assert_eq!(b.out().len(), 2);
    b.net.sink.room = Some(1);
    assert_eq!(b.one().data.len(), 1000);
    b.net.sink.room = None;
    assert_eq!(b.one().flags(), RST | ACK);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
}

#[test]
fn bytes_that_arrive_after_close_are_answered_with_a_reset() {
    let mut b = established();
    let id = b.id();
    b.net.stack.close(id);
    b.one();
    b.inject(ACK, 1, 2, 8000, &[]);
    assert_eq!(b.inject(ACK, 1, 2, 8000, b"late"), Some(Drop::TcpAfterClose));
    assert_eq!(b.one().flags(), RST | ACK);
    assert_eq!(b.counters().resets_after_close, 1);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
}

#[test]
fn abort_resets_at_once() {
    let mut b = established();
    let id = b.id();
    b.send(b"never mind");
    b.net.stack.abort(id);
    let reset = b.one();
    assert_eq!(reset.flags(), RST | ACK);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
    assert_eq!(b.net.stack.send(id, b"x"), Err(SendError::Stale));
}

#[test]
fn a_connection_whose_way_goes_is_reset_and_its_owner_told() {
    let mut b = established();
    let id = b.id();
    b.send(b"never mind");
    b.net.stack.abort_unreachable(id);
    assert_eq!(b.one().flags(), RST | ACK);
    b.silent();
    let failure = Failure::Unreachable(crate::Unreachable::Network);
    assert_eq!(b.net.stack.failure(id), Some(failure));
    assert_eq!(b.net.stack.send(id, b"x"), Err(SendError::Failed(failure)));
    // Twice is as good as once, and the handle lives until it is closed.
    b.net.stack.abort_unreachable(id);
    b.silent();
    b.net.stack.close(id);
    assert_eq!((b.net.stack.tcp.open.len(), b.net.stack.tcp.flows.len()), (0, 0));
}

#[test]
fn closing_in_syn_sent_just_ends() {
    let mut b = Bench::new(plain());
    let id = b.connect(ConnOptions::default());
    b.one();
    b.net.stack.close(id);
    b.silent();
    assert_eq!((b.net.stack.tcp.open.len(), b.net.stack.tcp.flows.len()), (0, 0));
    assert_eq!(b.net.stack.next_deadline(), Instant::NEVER);
}

#[test]
fn closing_before_the_syn_ack_of_a_simultaneous_open_still_sends_a_fin() {
    let mut b = Bench::new(plain());
    let id = b.connect(ConnOptions::default());
    b.iss = b.one().seg.seq;
    b.inject(SYN, 0, 0, 8000, &[]);
    b.one();
    b.net.stack.close(id);
    b.silent();
    b.inject(ACK, 1, 1, 8000, &[]);
    assert_eq!(b.one().flags(), FIN | ACK);
}

#[test]
fn a_fin_ahead_of_a_hole_waits_for_what_is_missing() {
    let mut b = established();
    b.inject(FIN | ACK, 5, 1, 8000, b"late");
    let dup = b.one();
    assert_eq!(b.rel_ack(&dup), 1);
    assert_eq!(b.state(), State::Established);
    b.inject(ACK, 1, 1, 8000, b"soon");
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), 10);
    assert_eq!(b.state(), State::CloseWait);
    assert_eq!(b.read_all(), b"soonlate");
}

#[test]
fn a_bare_fin_ahead_of_a_hole_is_not_taken_early() {
    let mut b = established();
    b.inject(FIN | ACK, 5, 1, 8000, &[]);
    b.out();
    assert_eq!(b.state(), State::Established);
    b.inject(ACK, 1, 1, 8000, b"soon");
    assert_eq!(b.state(), State::CloseWait);
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), 6);
}

#[test]
fn the_fin_again_in_time_wait_is_acknowledged_again_and_the_wait_starts_over() {
    let mut b = established();
    let id = b.id();
    b.net.stack.close(id);
    b.one();
    b.inject(FIN | ACK, 1, 2, 8000, &[]);
    let ack = b.one();
    b.pass(secs(40));
    b.inject(FIN | ACK, 1, 2, 8000, &[]);
    let again = b.one();
    assert_eq!((again.seg.seq, again.seg.ack, again.flags()), (ack.seg.seq, ack.seg.ack, ACK));
    b.pass(secs(40));
    assert_eq!(b.net.stack.tcp.time_wait.len(), 1);
    b.pass(secs(21));
    assert_eq!(b.net.stack.tcp.time_wait.len(), 0);
    assert_eq!(b.net.stack.tcp.flows.len(), 0);
}

fn in_time_wait(config: Config, opts: TcpOptions) -> Bench {
    let mut b = Bench::new(config);
    b.listen(8);
    b.handshake(opts, 8000);
    let id = b.id();
    b.net.stack.close(id);
    b.one();
    b.inject(FIN | ACK, 1, 2, 8000, &[]);
    b.one();
    assert_eq!(b.net.stack.tcp.time_wait.len(), 1);
    b
}

#[test]
fn a_reset_does_not_end_time_wait() {
    let mut b = in_time_wait(plain(), TcpOptions::NONE);
    assert_eq!(b.inject(RST, 2, 0, 0, &[]), Some(Drop::TcpResetInTimeWait));
    b.silent();
    assert_eq!(b.net.stack.tcp.time_wait.len(), 1);
}

#[test]
fn a_newer_syn_takes_a_pair_in_time_wait_over_and_an_older_one_does_not() {
    let mut b = in_time_wait(plain(), TcpOptions::NONE);
    let old_nxt = b.iss + 2;
    assert_eq!(b.inject(SYN, 1, 0, 8000, &[]), Some(Drop::TcpSynInWindow));
    assert_eq!(b.one().flags(), ACK);
    assert_eq!(b.inject(SYN, 70_000, 0, 8000, &[]), None);
    let answer = b.one();
    assert_eq!(answer.flags(), SYN | ACK);
    assert!(answer.seg.seq.gt(old_nxt));
    assert_eq!((b.net.stack.tcp.time_wait.len(), b.counters().time_wait_reused), (0, 1));
}

#[test]
fn with_timestamps_the_newer_one_decides() {
    let opts = TcpOptions { ts: Some((1000, 0)), ..TcpOptions::NONE };
    let mut b = in_time_wait(config(), opts);
    let syn = |b: &Bench, val| Segment {
        opts: TcpOptions { ts: Some((val, 0)), ..TcpOptions::NONE },
        ..b.segment(SYN, 50, 0, 8000)
    };
    let older = syn(&b, 999);
    assert_eq!(b.put(older, &[]), Some(Drop::TcpSynInWindow));
    b.out();
    // The number is below the old connection's, and the timestamp above: a new connection all the
    // same.
    b.peer_iss = b.peer_iss - 1_000;
    let newer = syn(&b, 1001);
    assert_eq!(b.put(newer, &[]), None);
    assert_eq!(b.one().flags(), SYN | ACK);
}

#[test]
fn a_full_time_wait_table_lets_the_oldest_go() {
    let mut config = plain();
    config.limits.time_wait = 2;
    let mut b = Bench::new(config);
    b.listen(8);
    for _ in 0..3 {
        b.peer_iss += 1_000_000;
        // Another port each time.
        b.net.now += ms(10);
        let port = 5000 + b.net.stack.tcp.time_wait.len() as u16;
        let syn = Segment {
            src_port: port + 10 * b.counters().passive_opens as u16,
            ..b.segment(SYN, 0, 0, 8000)
        };
        let src_port = syn.src_port;
        b.put(syn, &[]);
        b.iss = b.one().seg.seq;
        let ack = Segment { src_port, ..b.segment(ACK, 1, 1, 8000) };
        b.put(ack, &[]);
        let conn = b.net.stack.accept(b.listener.unwrap()).unwrap();
        b.net.stack.close(conn);
        b.one();
        let fin = Segment { src_port, ..b.segment(FIN | ACK, 1, 2, 8000) };
        b.put(fin, &[]);
        b.one();
    }
    assert_eq!((b.net.stack.tcp.time_wait.len(), b.net.stack.tcp.flows.len()), (2, 2));
    assert_eq!(b.counters().time_wait_evicted, 1);
}

#[test]
fn without_owner_fin_wait_2_ends_by_itself_and_with_owner_it_does_not() {
    let mut b = established();
    let id = b.id();
    b.net.stack.shutdown(id).unwrap();
    b.one();
    b.inject(ACK, 1, 2, 8000, &[]);
    b.pass(secs(1000));
    assert_eq!(b.state(), State::FinWait2);
    b.net.stack.close(id);
    b.pass(secs(61));
    assert_eq!((b.net.stack.tcp.open.len(), b.net.stack.tcp.flows.len()), (0, 0));
    assert_eq!(b.counters().fin_wait_2_timeouts, 1);
}

#[test]
fn the_owner_says_how_long_fin_wait_2_lasts_without_it() {
    for (wait, lasts) in [(Duration::ZERO, 0), (secs(5), 5)] {
        // The peer acknowledges the FIN before the owner lets go, and after.
        for early in [true, false] {
            let mut b = established();
            let id = b.id();
            let options = b.net.stack.options(id).unwrap();
            b.net.stack.set_options(id, ConnOptions { fin_wait_2: Some(wait), ..options });
            assert_eq!(b.net.stack.options(id).unwrap().fin_wait_2, Some(wait));
            b.net.stack.shutdown(id).unwrap();
            b.one();
            if !early {
                b.net.stack.close(id);
            }
            b.inject(ACK, 1, 2, 8000, &[]);
            if early {
                b.net.stack.close(id);
            }
            b.pass(Duration::from_millis(lasts * 1000 + 100));
            assert_eq!(
                (b.net.stack.tcp.open.len(), b.counters().fin_wait_2_timeouts),
                (0, 1),
                "{wait:?} {early}"
            );
        }
    }
}

#[test]
fn too_many_orphans_and_the_oldest_is_reset() {
    let mut config = plain();
    config.limits.orphans = 1;
    let mut b = Bench::new(config);
    b.listen(8);
    b.handshake(TcpOptions::NONE, 8000);
    let first = b.id();
    b.net.stack.close(first);
    b.one();
    let (old_iss, old_peer) = (b.iss, b.peer_iss);
    let syn = Segment { src_port: 9, ..b.segment(SYN, 0, 0, 8000) };
    b.put(syn, &[]);
    b.iss = b.one().seg.seq;
    let ack = Segment { src_port: 9, ..b.segment(ACK, 1, 1, 8000) };
    b.put(ack, &[]);
    let second = b.net.stack.accept(b.listener.unwrap()).unwrap();
    b.net.stack.close(second);
    let seen = b.out();
    assert!(seen.iter().any(|s| s.flags() == RST | ACK
        && s.seg.dst_port == PEER_PORT
        && s.seg.seq == old_iss + 2));
    assert!(seen.iter().any(|s| s.flags() == FIN | ACK && s.seg.dst_port == 9));
    assert_eq!((b.counters().orphans_evicted, b.net.stack.tcp.open.len()), (1, 1));
    let _ = old_peer;
}

#[test]
fn an_orphan_whose_peer_answers_probes_and_takes_nothing_ends_in_its_time() {
    let mut b = Bench::accepted(plain(), 1000, 0);
    let id = b.id();
    b.send(b"waiting");
    b.silent();
    b.net.stack.close(id);
    let mut reset = None;
    for _ in 0..200 {
        for (_, seg) in b.pass(ms(500)) {
            if seg.flags().rst() {
                reset = Some(b.net.now);
            } else {
                b.inject(ACK, 1, 1, 0, &[]);
            }
        }
    }
    assert!(reset.is_some(), "the peer is told");
    assert_eq!((b.net.stack.tcp.open.len(), b.counters().orphans_timed_out), (0, 1));
    assert_eq!(b.net.stack.population().orphan_bytes, 0);
}

#[test]
fn who_goes_for_good_resets_what_a_shut_window_kept_back_and_nothing_else() {
    let mut b = Bench::accepted(plain(), 1000, 0);
    let id = b.id();
    b.send(b"waiting");
    b.silent();
    b.net.stack.close(id);
    b.net.stack.reset_unsent();
    assert!(b.one().flags().rst(), "the peer is told");
    assert_eq!(b.net.stack.tcp.open.len(), 0);
    assert_eq!(b.net.stack.population().orphan_bytes, 0);

    let mut b = Bench::accepted(plain(), 1000, 1000);
    let id = b.id();
    b.send(b"leaves");
    b.net.stack.close(id);
    assert!(!b.out().is_empty());
    b.net.stack.reset_unsent();
    b.silent();
}

#[test]
fn the_lifetime_of_an_orphan_begins_when_its_owner_lets_go() {
    let mut b = Bench::accepted(plain(), 1000, 1000);
    let id = b.id();
    // The owner was busy with something else, or waited: nobody told the stack the time.
    b.net.now += secs(79);
    b.net.stack.send(id, b"answer").unwrap();
    b.net.stack.close(id);
    assert!(!b.out().is_empty());
    b.pass(secs(1));
    assert_eq!((b.net.stack.tcp.open.len(), b.counters().orphans_timed_out), (1, 0));
    b.inject(ACK, 1, 8, 1000, &[]);
    b.pass(secs(58));
    assert_eq!((b.net.stack.tcp.open.len(), b.counters().orphans_timed_out), (1, 0));
}

#[test]
fn an_orphan_whose_peer_takes_its_bytes_slowly_may_go_on() {
    let mut config = plain();
    config.tcp.max_receive_window = 64 * 1024;
    let mut b = Bench::accepted(config, 1000, 1000);
    let id = b.id();
    let len = b.net.stack.send(id, &[7; 30_000]).unwrap() as u32;
    assert!(len > 10_000, "{len}");
    b.net.stack.close(id);
    let mut acked = 1;
    // A thousand bytes in ten seconds.
    for _ in 0..len.div_ceil(1000) {
        b.pass(secs(10));
        acked = (acked + 1000).min(len + 1);
        b.inject(ACK, 1, acked, 1000, &[]);
        assert_eq!(b.counters().orphans_timed_out, 0, "after {acked} bytes");
    }
    b.pass(secs(10));
    assert_eq!(b.counters().orphans_timed_out, 0);
}

#[test]
fn orphans_are_bounded_by_the_bytes_that_they_hold_too() {
    let mut config = plain();
    config.limits.orphan_bytes = 10;
    let mut b = Bench::new(config);
    b.listen(8);
    for port in [PEER_PORT, 9] {
        let syn = Segment { src_port: port, ..b.segment(SYN, 0, 0, 0) };
        b.put(syn, &[]);
        b.iss = b.one().seg.seq;
        let ack = Segment { src_port: port, ..b.segment(ACK, 1, 1, 0) };
        b.put(ack, &[]);
        let id = b.net.stack.accept(b.listener.unwrap()).unwrap();
        b.net.stack.send(id, b"7 bytes").unwrap();
        b.net.stack.close(id);
        assert_eq!(b.net.stack.population().orphan_bytes, 7);
    }
    assert_eq!((b.counters().orphans_evicted, b.net.stack.tcp.open.len()), (1, 1));
    b.out();
}

#[test]
fn an_orphan_whose_peer_takes_its_bytes_is_spared_when_others_hold_too_much() {
    let mut config = plain();
    config.limits.orphan_bytes = 12;
    let mut b = Bench::new(config);
    b.listen(8);
    let close = |b: &mut Bench, port, bytes: &[u8]| {
        let syn = Segment { src_port: port, ..b.segment(SYN, 0, 0, 0) };
        b.put(syn, &[]);
        b.iss = b.one().seg.seq;
        let ack = Segment { src_port: port, ..b.segment(ACK, 1, 1, 8000) };
        b.put(ack, &[]);
        let id = b.net.stack.accept(b.listener.unwrap()).unwrap();
        b.net.stack.send(id, bytes).unwrap();
        b.net.stack.close(id);
        b.iss
    };
    let moving = close(&mut b, 7, b"6 byte");
    b.out();
    let stuck = close(&mut b, 9, b"7 bytes");
    assert_eq!(
        b.counters().orphans_evicted,
        1,
        "nothing was acknowledged of either, so the oldest went"
    );
    b.out();
    let _ = moving;
    // The one that is left has five of its bytes acknowledged, and the next takes none.
    let ack = Segment { src_port: 9, ack: stuck + 6, ..b.segment(ACK, 1, 1, 8000) };
    b.put(ack, &[]);
    close(&mut b, 11, b"9 bytes..");
    assert_eq!((b.counters().orphans_evicted, b.net.stack.population().orphan_bytes), (1, 11));
    b.out();
}

#[test]
fn who_holds_memory_under_shortage_and_moves_nothing_is_reset_and_told_so() {
    let mut b = Bench::accepted(plain(), 1000, 0);
    let id = b.id();
    b.send(b"waiting");
    b.silent();
    b.net.stack.end_for_shortage(id);
    assert!(b.one().flags().rst());
    assert_eq!(b.net.stack.failure(id), Some(Failure::NoMemory));
    assert_eq!(b.counters().shortage_resets, 1);
    b.net.stack.end_for_shortage(id);
    b.silent();
    assert_eq!(b.counters().shortage_resets, 1);
    b.net.stack.close(id);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
}

#[test]
fn events_are_told_once_and_failures_stay_readable() {
    let mut b = established();
    b.inject(ACK, 1, 1, 8000, b"a");
    b.inject(ACK, 2, 1, 8000, b"b");
    assert_eq!(b.events(), [ConnEvents::READABLE]);
    assert_eq!(b.events(), []);
    b.inject(RST, 3, 0, 0, &[]);
    assert_eq!(b.events(), [ConnEvents::FAILED]);
    let id = b.id();
    assert_eq!(b.read_all(), b"ab");
    assert_eq!(b.net.stack.recv(id), Err(RecvError::Failed(Failure::Reset)));
    assert_eq!(b.net.stack.send(id, b"x"), Err(SendError::Failed(Failure::Reset)));
    assert_eq!(b.net.stack.tcp.flows.len(), 0);
    b.net.stack.close(id);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
    b.out();
}

#[test]
fn a_reset_in_last_ack_is_told_when_bytes_were_lost() {
    for (written, failure) in [(0, None), (10, Some(Failure::Reset))] {
        let mut b = Bench::accepted(plain(), 1000, 8000);
        let id = b.id();
        b.send(&vec![7; written]);
        b.out();
        b.inject(FIN | ACK, 1, 1, 8000, &[]);
        b.out();
        b.net.stack.shutdown(id).unwrap();
        b.out();
        assert_eq!(b.net.stack.state(id), State::LastAck);
        b.inject(RST, 2, 0, 0, &[]);
        assert_eq!(b.net.stack.failure(id), failure);
    }
}

#[test]
fn in_time_wait_what_cannot_be_a_late_ack_is_answered_and_not_for_ever() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let id = b.id();
    b.net.stack.shutdown(id).unwrap();
    b.out();
    b.inject(FIN | ACK, 1, 2, 8000, &[]);
    assert_eq!(b.one().flags(), ACK);
    assert_eq!(b.net.stack.population().time_wait, 1);
    assert_eq!(b.inject(ACK, 2, 2, 8000, &[]), None, "a late ACK");
    b.silent();
    for seq in [1, 900_000] {
        assert_eq!(b.inject(ACK, seq, 2, 8000, &[]), Some(Drop::TcpOutOfWindow));
        let answer = b.one();
        assert_eq!((b.rel_seq(&answer), b.rel_ack(&answer), answer.flags()), (2, 2, ACK));
    }
    let answers: usize = (0..100)
        .map(|_| {
            b.inject(ACK, 1, 2, 8000, &[]);
            b.out().len()
        })
        .sum();
    assert_eq!(answers, 13, "two ends that disagree do not answer each other for ever");
    // What its peer sends again is still answered, and the wait starts over.
    b.inject(FIN | ACK, 1, 2, 8000, &[]);
    b.one();
    b.inject(ACK, 1, 2, 8000, &[]);
    b.one();
}

#[test]
fn who_is_killed_by_an_operator_is_reset_and_told_so_once() {
    let mut b = Bench::accepted(plain(), 1000, 0);
    let id = b.id();
    b.send(b"waiting");
    b.silent();
    assert!(b.net.stack.kill(id));
    assert!(b.one().flags().rst());
    assert_eq!(b.net.stack.failure(id), Some(Failure::Killed));
    assert!(!b.net.stack.kill(id), "it is over");
    b.silent();
    b.net.stack.close(id);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
}
