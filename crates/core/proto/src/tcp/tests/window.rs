//! Windows, Nagle, cork, PSH, and what a full device does.

use super::*;

fn with_options(options: ConnOptions) -> Bench {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let id = b.id();
    b.net.stack.set_options(id, options);
    b
}

#[test]
fn the_peers_window_is_never_overrun_and_growth_lets_more_out() {
    let mut b = Bench::accepted(plain(), 1000, 2500);
    b.send(&pattern(5000));
    let sizes: Vec<usize> = b.out().iter().map(|s| s.data.len()).collect();
    assert_eq!(sizes, [1000, 1000]);
    b.inject(ACK, 1, 1, 4000, &[]);
    let more: usize = b.out().iter().map(|s| s.data.len()).sum();
    assert_eq!(more, 2000);
    // The window shrinks below what is out: nothing more leaves, nothing breaks.
    b.inject(ACK, 1, 2001, 100, &[]);
    b.silent();
    b.inject(ACK, 1, 4001, 8000, &[]);
    assert_eq!(b.one().data.len(), 1000);
}

#[test]
fn segments_are_at_most_half_of_the_largest_window_that_ever_was() {
    let mut b = Bench::accepted(plain(), 1000, 1301);
    b.send(&pattern(9000));
    let sizes = |b: &mut Bench| b.out().iter().map(|s| s.data.len()).collect::<Vec<_>>();
    assert_eq!((sizes(&mut b), b.info().snd_mss), (vec![650, 650], 650));
    // As the first is read, the next may leave behind the second.
    b.inject(ACK, 1, 651, 1301, &[]);
    assert_eq!(sizes(&mut b), [650]);
    b.inject(ACK, 1, 1951, 1999, &[]);
    assert_eq!(sizes(&mut b), [999, 999]);
    b.inject(ACK, 1, 3949, 2000, &[]);
    assert_eq!(sizes(&mut b), [1000, 1000]);
    // Smaller windows change it no more.
    b.inject(ACK, 1, 5949, 1301, &[]);
    assert_eq!(sizes(&mut b), [1000]);
}

#[test]
fn a_buffer_smaller_than_all_must_have_takes_one_segment() {
    let mut b = Bench::accepted(plain(), 1000, 500);
    b.send(&pattern(3000));
    assert_eq!(b.one().data.len(), 500);
}

#[test]
fn what_is_pushed_is_answered_at_once_after_an_ack_that_waited_in_vain() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let id = b.id();
    b.net.stack.set_quick_ack(id, false);
    let mut seq = 1;
    let mut bring = |b: &mut Bench, flags| {
        assert_eq!(b.inject(flags, seq, 1, 8000, &[1; 100]), None);
        seq += 100;
        b.read_all();
        b.out().len()
    };
    assert_eq!(bring(&mut b, ACK | PSH), 0);
    assert_eq!(b.pass(ms(100)).len(), 1);
    for _ in 0..20 {
        assert_eq!(bring(&mut b, ACK | PSH), 1);
    }
    // Behind what is not pushed more will come.
    assert_eq!(bring(&mut b, ACK), 0);
    assert_eq!(bring(&mut b, ACK), 1);
    // Data of ours takes ACKs along again.
    b.send(b"answer");
    assert_eq!(b.one().data, b"answer");
    assert_eq!(b.inject(ACK, seq, 7, 8000, &[]), None);
    assert_eq!(b.inject(ACK | PSH, seq, 7, 8000, &[1; 100]), None);
    b.silent();
}

#[test]
fn a_duplicate_ack_before_any_other_tells_the_window_of_the_syn() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let told = b.info().rcv_wnd;
    assert!(told > 2000, "{told}");
    b.inject(ACK, 1001, 1, 8000, &pattern(1000));
    let again = b.one();
    assert_eq!((b.rel_ack(&again), u32::from(again.seg.wnd)), (1, told));
}

/// Sends until our window is shut; the number that the peer is at. The last segment reaches beyond
/// the window.
fn fill(b: &mut Bench) -> u32 {
    let (mut seq, mut edge) = (1, 0);
    loop {
        let len = 1000.max(b.info().rcv_wnd.min(1001));
        b.inject(ACK, seq, 1, 8000, &pattern(len as usize));
        b.pass(ms(50));
        let seen = {
            b.inject(ACK, seq, 1, 8000, b"x");
            b.one()
        };
        let now = b.rel_ack(&seen) + u32::from(seen.seg.wnd);
        assert!(now >= edge, "the edge moved left");
        edge = now;
        seq = b.rel_ack(&seen);
        if seen.seg.wnd == 0 {
            return seq;
        }
        assert!(seq < 3_000_000, "the window never closes");
    }
}

#[test]
fn an_older_segment_does_not_set_the_window() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    b.inject(ACK, 1, 1, 5000, b"ab");
    b.out();
    assert_eq!(b.info().snd_wnd, 5000);
    // Seq 1 is older than seq 3, which set the window since.
    b.inject(ACK, 3, 1, 4000, b"cd");
    b.inject(ACK, 1, 1, 9000, b"ab");
    assert_eq!(b.info().snd_wnd, 4000);
}

#[test]
fn our_window_closes_as_the_owner_does_not_read_and_opens_in_steps_worth_telling() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    fill(&mut b);
    let id = b.id();
    b.pass(ms(100));
    b.net.stack.consumed(id, 10);
    b.silent();
    b.net.stack.consumed(id, 9990);
    let update = b.one();
    assert!(update.seg.wnd >= 4000, "{}", update.seg.wnd);
}

#[test]
fn data_beyond_the_window_is_cut_and_the_zero_window_still_takes_acks() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    let seq = fill(&mut b);
    let held = b.net.stack.unread(b.id());
    b.send(b"reply");
    b.one();
    // A window probe that carries an ACK: the ACK counts, the byte does not.
    b.inject(ACK, seq, 6, 8000, b"p");
    let answer = b.one();
    assert_eq!((b.rel_ack(&answer), answer.seg.wnd), (seq, 0));
    assert_eq!(b.info().unacked, 0);
    assert_eq!(b.read_all().len(), held as usize);
}

#[test]
fn small_writes_wait_for_company_unless_told_not_to() {
    let mut b = with_options(ConnOptions::default());
    b.send(b"a");
    assert_eq!(b.one().data, b"a");
    b.send(b"b");
    b.send(b"c");
    b.silent();
    b.inject(ACK, 1, 2, 8000, &[]);
    assert_eq!(b.one().data, b"bc");

    let mut b = with_options(ConnOptions { nodelay: true, ..ConnOptions::default() });
    b.send(b"a");
    b.send(b"b");
    assert_eq!(b.one().data, b"ab");
    b.send(b"c");
    assert_eq!(b.one().data, b"c");
}

#[test]
fn a_cork_holds_everything_but_full_segments_until_it_is_pulled() {
    let mut b = with_options(ConnOptions { cork: true, ..ConnOptions::default() });
    let id = b.id();
    b.send(&pattern(1500));
    assert_eq!(b.one().data.len(), 1000);
    b.silent();
    b.net.stack.set_options(id, ConnOptions::default());
    assert_eq!(b.one().data.len(), 500);
}

#[test]
fn a_full_device_changes_nothing_and_all_leaves_later() {
    let mut b = Bench::accepted(plain(), 1000, 8000);
    b.net.sink.room = Some(1);
    b.send(&pattern(3000));
    let now = b.net.now;
    assert!(b.net.stack.emit(now, &mut b.net.sink));
    assert_eq!(b.net.sink.take().len(), 1);
    assert_eq!(b.info().unacked, 1000);
    assert!(b.net.stack.wants_emit());
    assert!(b.net.stack.emit(now, &mut b.net.sink));
    assert!(b.net.sink.take().is_empty());
    b.net.sink.room = None;
    assert_eq!(b.out().len(), 2);
    assert!(!b.net.stack.wants_emit());
}

#[test]
fn one_connection_does_not_keep_the_others_waiting() {
    let mut config = plain();
    config.tcp.quantum = 2000;
    let mut b = Bench::accepted(config, 1000, 60_000);
    b.send(&pattern(10_000));
    assert_eq!(b.out().len(), 2);
    assert!(b.net.stack.wants_emit());
    assert_eq!(b.out().len(), 2);
}

#[test]
fn a_full_store_tells_when_there_is_room_again() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    let mut written = 0;
    loop {
        let n = b.send(&zeros(100_000));
        written += n;
        if n < 100_000 {
            break;
        }
    }
    assert_eq!(b.send(b"x"), 0);
    let sent: usize = b.out().iter().map(|s| s.data.len()).sum();
    assert!(sent > 0 && written > sent);
    assert_eq!(b.events(), []);
    b.inject(ACK, 1, 1 + sent as u32, 60_000, &[]);
    assert_eq!(b.events(), [ConnEvents::WRITABLE]);
}

#[test]
fn a_narrower_path_makes_segments_smaller() {
    let mut b = Bench::accepted(plain(), 1400, 60_000);
    b.send(&pattern(2800));
    assert_eq!(b.out().iter().map(|s| s.data.len()).collect::<Vec<_>>(), [1400, 1400]);
    let key = b.net.stack.tcp.owned(b.id()).unwrap().key;
    let iss = b.iss;
    let (tcp, mut cx) = b.net.stack.split();
    tcp.on_icmp_error(
        &mut cx,
        &key,
        iss + 1,
        crate::net::icmp::IcmpError::PacketTooBig { mtu: 1000 },
    )
    .unwrap();
    let again = b.out();
    // Sent again at once, without waiting for the timer, and not taken for a sign of congestion
    // (RFC 8201 5.4).
    assert!(!again.is_empty());
    assert_eq!(again[0].seg.seq, b.iss + 1);
    assert_eq!((b.info().ssthresh, b.info().backoff), (u32::MAX, 0));
}

#[test]
fn what_a_narrower_path_takes_for_lost_takes_no_earlier_cut_back() {
    let mut b = Bench::accepted_sack(1400, 60_000);
    b.send(&pattern(14_000));
    b.out();
    let sack = |b: &Bench, ack: u32, end: u32| {
        let mut seg = b.segment(ACK, 1, ack, 60_000);
        seg.opts.sack.push(b.iss + 1401, b.iss + end);
        seg
    };
    // A loss that is repaired.
    for end in [2801, 4201, 5601] {
        let seg = sack(&b, 1, end);
        b.put(seg, &[]);
    }
    b.out();
    b.inject(ACK, 1, 14_001, 60_000, &[]);
    let cut = b.info().ssthresh;
    assert!(cut < u32::MAX && b.info().phase == Phase::Open);
    b.send(&pattern(7000));
    b.out();
    let key = b.net.stack.tcp.owned(b.id()).unwrap().key;
    let iss = b.iss;
    let (tcp, mut cx) = b.net.stack.split();
    let narrow = crate::net::icmp::IcmpError::PacketTooBig { mtu: 1000 };
    tcp.on_icmp_error(&mut cx, &key, iss + 14_001, narrow).unwrap();
    // Before anything is sent again, ACKs come: the message was old. What was cut before was cut
    // for a loss all the same.
    b.inject(ACK, 1, 14_001 + 1400, 60_000, &[]);
    let mut seg = b.segment(ACK, 1, 14_001 + 1400, 60_000);
    seg.opts.sack.push(b.iss + 14_001 + 5600, b.iss + 14_001 + 7000);
    b.put(seg, &[]);
    assert_eq!((b.info().ssthresh, b.counters().losses_undone), (cut, 0));
}

#[test]
fn what_a_cork_holds_back_leaves_after_200_ms_in_which_nothing_was_in_flight() {
    let mut b = with_options(ConnOptions { cork: true, ..ConnOptions::default() });
    b.send(&pattern(300));
    b.silent();
    assert!(b.pass(Duration::from_millis(150)).is_empty());
    b.send(&pattern(200));
    b.silent();
    let left = b.pass(Duration::from_millis(100));
    assert_eq!(
        left.iter().map(|(at, seen)| (at.as_millis(), seen.data.len())).collect::<Vec<_>>(),
        [(50, 500)]
    );
    // The peer is not to blame: nothing counts as tried, and the timeout is not backed off.
    assert_eq!(
        (b.info().retransmits, b.info().backoff, b.net.stack.counters().tcp.window_probes),
        (0, 0, 0)
    );
    b.send(&pattern(100));
    b.silent();
    assert!(b.pass(Duration::from_millis(150)).is_empty(), "something is in flight");
    b.inject(ACK, 1, 501, 8000, &[]);
    b.silent();
    assert_eq!(b.pass(Duration::from_millis(220)).len(), 1);
}

#[test]
fn no_delay_sends_what_waits_under_a_cork() {
    let mut b = with_options(ConnOptions { cork: true, ..ConnOptions::default() });
    let id = b.id();
    let both = ConnOptions { cork: true, nodelay: true, ..ConnOptions::default() };
    b.send(&pattern(300));
    b.silent();
    b.net.stack.set_options(id, both);
    assert_eq!(b.one().data.len(), 300);
    b.send(&pattern(200));
    b.silent();
    b.net.stack.set_options(id, ConnOptions { tos: 8, ..both });
    b.silent();
    b.net.stack.set_options(id, ConnOptions { tos: 8, ..both });
    assert_eq!(b.one().data.len(), 200, "set once more");
}

#[test]
fn what_more_is_to_follow_waits_for_it_and_not_for_ever() {
    let mut b = with_options(ConnOptions { nodelay: true, ..ConnOptions::default() });
    let id = b.id();
    assert_eq!(b.net.stack.send_more(id, &pattern(300)), Ok(300));
    b.silent();
    assert_eq!(b.net.stack.send(id, &pattern(100)), Ok(100));
    assert_eq!(b.one().data.len(), 400);
    b.inject(ACK, 1, 401, 8000, &[]);
    assert_eq!(b.net.stack.send_more(id, &pattern(1300)), Ok(1300));
    assert_eq!(b.one().data.len(), 1000, "a full segment waits for nothing");
    b.inject(ACK, 1, 1401, 8000, &[]);
    b.silent();
    let left = b.pass(Duration::from_millis(220));
    assert_eq!(left.iter().map(|(_, seen)| seen.data.len()).collect::<Vec<_>>(), [300]);
    assert_eq!(b.net.stack.send_more(id, &pattern(50)), Ok(50));
    b.silent();
    b.net.stack.shutdown(id).unwrap();
    assert_eq!(b.one().data.len(), 50, "with the FIN");
}

#[test]
fn records_share_no_segment_neither_when_they_leave_nor_when_they_leave_again() {
    let mut b = with_options(ConnOptions::default());
    let id = b.id();
    let sizes = |seen: &[Seen]| {
        seen.iter().map(|s| (s.data.len(), s.flags().contains(PSH))).collect::<Vec<_>>()
    };
    b.send(&pattern(300));
    assert_eq!(b.one().data.len(), 300);
    // What a small segment would keep back leaves as far as a record ends; what follows the last
    // end waits.
    for len in [100, 1200, 50] {
        assert_eq!(b.net.stack.send_record(id, &pattern(len)), Ok(len));
    }
    b.send(&pattern(20));
    assert_eq!(sizes(&b.out()), [(100, true), (1000, false), (200, true), (50, true)]);
    b.inject(ACK, 1, 301, 8000, &[]);
    b.silent();
    let mut again: Vec<Seen> =
        b.pass(Duration::from_millis(300)).into_iter().map(|(_, seen)| seen).collect();
    assert_eq!(again[0].data.len(), 100);
    for ack in [401, 1401, 1601] {
        b.inject(ACK, 1, ack, 8000, &[]);
        again.extend(b.out());
    }
    for seen in &again {
        let (begin, end) = (b.rel_seq(seen), b.rel_seq(seen) + seen.data.len() as u32);
        assert!([401, 1601, 1651].iter().all(|at| end <= *at || *at <= begin), "{begin}:{end}");
    }
}

#[test]
fn who_remembers_too_many_ends_of_records_takes_no_more_until_some_are_acknowledged() {
    let mut b = with_options(ConnOptions::default());
    let id = b.id();
    for _ in 0..crate::limits::RECORD_ENDS {
        assert_eq!(b.net.stack.send_record(id, b"x"), Ok(1));
    }
    assert_eq!(b.net.stack.send_record(id, b"x"), Ok(0));
    let left = b.out().len() as u32;
    assert!(left > 0);
    b.inject(ACK, 1, 1 + left, 8000, &[]);
    assert!(b.events().iter().any(|event| event.has(ConnEvents::WRITABLE)));
    assert_eq!(b.net.stack.send_record(id, b"x"), Ok(1));
}

/// The second segment does not come for the ACK of the first one, or not soon enough.
#[test]
fn a_window_grows_also_where_each_segment_is_acknowledged_alone() {
    let mut config = plain();
    config.tcp.initial_receive_window = 4096;
    config.tcp.delayed_ack = ms(200);
    let mut b = Bench::accepted(config, 1460, 8000);
    // A round trip of 700 ms, in which two segments come.
    b.send(b"how far");
    b.one();
    b.pass(ms(700));
    b.inject(ACK, 1, 8, 8000, &[]);
    b.out();
    let mut windows = std::vec::Vec::new();
    for n in 0..40 {
        b.inject(ACK, 1 + 1460 * n, 8, 8000, &pattern(1460));
        b.read_all();
        let left = b.pass(ms(350));
        windows.extend(left.iter().map(|(_, seen)| seen.seg.wnd));
    }
    assert!(windows.iter().all(|window| *window >= 1460), "{windows:?}");
    assert!(windows.last().is_some_and(|window| *window >= 8192), "{windows:?}");
}
