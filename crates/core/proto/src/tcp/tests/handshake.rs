//! Opening: passive, active, simultaneous, split, with data, refused, and with everything full.

use super::*;

#[test]
fn a_stranger_connects_and_is_accepted_once() {
    let mut b = Bench::new(plain());
    let listener = b.listen(8);
    assert_eq!(b.inject(SYN, 0, 0, 8000, &[]), None);
    let answer = b.one();
    assert_eq!((answer.flags(), answer.seg.ack), (SYN | ACK, b.peer_iss + 1));
    b.iss = answer.seg.seq;
    assert_eq!(b.net.stack.accept(listener), None);
    assert_eq!(b.net.stack.next_event(), None);
    b.inject(ACK, 1, 1, 8000, &[]);
    b.silent();
    assert_eq!(b.net.stack.next_event(), Some(Event::Incoming { listener, token: 7 }));
    assert_eq!(b.net.stack.next_event(), None);
    let conn = b.net.stack.accept(listener).unwrap();
    assert_eq!(b.net.stack.accept(listener), None);
    assert_eq!(b.net.stack.state(conn), State::Established);
    assert_eq!(b.net.stack.remote(conn).unwrap().port, PEER_PORT);
    assert_eq!(b.counters().passive_opens, 1);
}

#[test]
fn what_both_offer_is_agreed_on_and_nothing_else() {
    let mut b = Bench::new(config());
    b.listen(8);
    let all = TcpOptions {
        mss: Some(1000),
        wscale: Some(3),
        sack_permitted: true,
        ts: Some((5, 0)),
        ..TcpOptions::NONE
    };
    let syn = Segment { opts: all, ..b.segment(SYN, 0, 0, 8000) };
    b.put(syn, &[]);
    let o = b.one().seg.opts;
    assert_eq!(o.mss, Some(1460));
    assert!(o.wscale.is_some() && o.sack_permitted);
    assert_eq!(o.ts.unwrap().1, 5);

    let mut b = Bench::accepted(config(), 1000, 8000);
    let i = b.info();
    assert!(!i.timestamps && !i.sack && i.snd_wscale.is_none() && i.rcv_wscale.is_none());
    assert_eq!(i.snd_mss, 1000);
    b.send(&pattern(1500));
    let seen = b.out();
    assert_eq!(seen.iter().map(|s| s.data.len()).collect::<Vec<_>>(), [1000, 500]);
}

#[test]
fn a_peer_that_names_no_segment_size_gets_the_default() {
    let mut b = Bench::new(plain());
    b.listen(8);
    b.handshake(TcpOptions::NONE, 8000);
    assert_eq!(b.info().snd_mss, 536);
}

#[test]
fn the_syn_ack_is_repeated_and_then_the_handshake_is_forgotten() {
    let mut b = Bench::new(plain());
    b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    let first = b.one();
    let again = b.pass(secs(200));
    assert_eq!(again.len(), 5);
    assert!(again.iter().all(|(_, s)| s.seg == first.seg));
    let times: Vec<u64> = again.iter().map(|(at, _)| at.as_millis() / 1000).collect();
    assert_eq!(times, [1, 3, 7, 15, 31]);
    assert_eq!(b.counters().half_open_timeouts, 1);
    b.iss = first.seg.seq;
    assert_eq!(b.inject(ACK, 1, 1, 8000, &[]), Some(Drop::TcpNoHandshake));
    assert_eq!(b.one().flags(), RST);
}

#[test]
fn the_same_syn_again_is_answered_again_and_another_one_is_challenged() {
    let mut b = Bench::new(plain());
    b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    let first = b.one();
    b.inject(SYN, 0, 0, 8000, &[]);
    assert_eq!(b.one().seg, first.seg);
    assert_eq!(b.inject(SYN, 500, 0, 8000, &[]), Some(Drop::TcpSynInWindow));
    assert_eq!(b.one().flags(), ACK);
}

#[test]
fn data_with_the_ack_of_the_handshake_is_delivered() {
    let mut b = Bench::new(plain());
    let listener = b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    b.iss = b.one().seg.seq;
    assert_eq!(b.inject(ACK | PSH, 1, 1, 8000, b"hello"), None);
    let conn = b.net.stack.accept(listener).unwrap();
    assert_eq!(b.net.stack.recv(conn).unwrap(), b"hello");
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), 6);
}

#[test]
fn data_on_the_syn_is_not_taken_before_the_handshake() {
    let mut b = Bench::new(plain());
    let listener = b.listen(8);
    b.inject(SYN, 0, 0, 8000, b"early");
    let answer = b.one();
    assert_eq!(answer.seg.ack, b.peer_iss + 1);
    b.iss = answer.seg.seq;
    b.inject(ACK, 1, 1, 8000, b"early");
    let conn = b.net.stack.accept(listener).unwrap();
    assert_eq!(b.net.stack.recv(conn).unwrap(), b"early");
}

#[test]
fn a_wrong_ack_in_the_handshake_is_reset_and_the_right_one_still_works() {
    let mut b = Bench::new(plain());
    let listener = b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    b.iss = b.one().seg.seq;
    assert_eq!(b.inject(ACK, 1, 77, 8000, &[]), Some(Drop::TcpBadAck));
    let reset = b.one();
    assert_eq!((reset.flags(), b.rel_seq(&reset)), (RST, 77));
    b.inject(ACK, 1, 1, 8000, &[]);
    assert!(b.net.stack.accept(listener).is_some());
}

#[test]
fn a_reset_in_the_handshake_must_be_exact() {
    let mut b = Bench::new(plain());
    b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    b.iss = b.one().seg.seq;
    assert_eq!(b.inject(RST, 2, 0, 0, &[]), Some(Drop::TcpResetNotExact));
    assert_eq!(b.one().flags(), ACK);
    assert_eq!(b.inject(RST, 1, 0, 0, &[]), Some(Drop::TcpReset));
    b.silent();
    assert_eq!(b.inject(ACK, 1, 1, 8000, &[]), Some(Drop::TcpNoHandshake));
}

#[test]
fn we_connect_with_everything_on_offer() {
    let mut b = Bench::new(config());
    b.connect(ConnOptions::default());
    assert_eq!(b.state(), State::SynSent);
    let syn = b.one();
    assert_eq!(syn.flags(), SYN);
    let o = syn.seg.opts;
    assert!(o.mss == Some(1460) && o.wscale.is_some() && o.sack_permitted && o.ts.is_some());
    b.iss = syn.seg.seq;
    let opts = TcpOptions {
        mss: Some(1400),
        wscale: Some(20),
        ts: Some((9, o.ts.unwrap().0)),
        ..TcpOptions::NONE
    };
    b.put(Segment { opts, ..b.segment(SYN | ACK, 0, 1, 100) }, &[]);
    let ack = b.one();
    assert_eq!(ack.seg.opts.ts.unwrap().1, 9);
    let i = b.info();
    // A shift above 14 counts as 14, and the window of a SYN is not shifted.
    assert_eq!((i.snd_wscale, i.snd_wnd, i.snd_mss, i.sack), (Some(14), 100, 1388, false));
    assert_eq!(b.state(), State::Established);
}

#[test]
fn bytes_written_before_the_handshake_leave_after_it() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.send(b"early");
    let syn = b.one();
    assert!(syn.data.is_empty());
    b.iss = syn.seg.seq;
    b.inject(SYN | ACK, 0, 1, 8000, &[]);
    let first = b.one();
    assert_eq!((first.flags(), &first.data[..]), (ACK | PSH, &b"early"[..]));
}

#[test]
fn data_on_the_syn_ack_is_taken() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.iss = b.one().seg.seq;
    assert_eq!(b.inject(SYN | ACK, 0, 1, 8000, b"greetings"), None);
    let ack = b.one();
    assert_eq!(b.rel_ack(&ack), 10);
    assert_eq!(b.read_all(), b"greetings");
}

#[test]
fn the_syn_is_repeated_with_backoff_until_connect_fails() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.one();
    let again = b.pass(secs(300));
    let times: Vec<u64> = again.iter().map(|(at, _)| (at.as_millis() + 500) / 1000).collect();
    assert_eq!(times, [1, 3, 7, 15, 31, 63]);
    assert_eq!(b.events(), [ConnEvents::FAILED]);
    assert_eq!(b.net.stack.failure(b.id()), Some(Failure::TimedOut));
    assert_eq!(b.counters().attempt_fails, 1);
}

#[test]
fn the_owner_says_how_often_the_syn_is_repeated() {
    for retries in [1, 3] {
        let mut b = Bench::new(plain());
        b.connect(ConnOptions { syn_retries: retries, ..ConnOptions::default() });
        b.one();
        assert_eq!(b.pass(secs(300)).len(), usize::from(retries));
        assert_eq!(b.net.stack.failure(b.id()), Some(Failure::TimedOut));
    }
}

#[test]
fn a_refused_connection_says_so_and_a_reset_that_acknowledges_nothing_is_ignored() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.iss = b.one().seg.seq;
    assert_eq!(b.inject(RST, 0, 0, 0, &[]), Some(Drop::TcpResetOutOfWindow));
    assert_eq!(b.state(), State::SynSent);
    b.inject(RST | ACK, 0, 1, 0, &[]);
    assert_eq!(b.net.stack.failure(b.id()), Some(Failure::Refused));
    assert_eq!(b.events(), [ConnEvents::FAILED]);
    b.silent();
}

#[test]
fn an_ack_of_what_we_never_sent_in_syn_sent_is_reset() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.iss = b.one().seg.seq;
    for flags in [SYN | ACK, ACK] {
        assert_eq!(b.inject(flags, 0, 5, 8000, &[]), Some(Drop::TcpBadAck));
        let reset = b.one();
        assert_eq!((reset.flags(), b.rel_seq(&reset)), (RST, 5));
    }
    assert_eq!(b.state(), State::SynSent);
}

#[test]
fn both_ends_open_at_once() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.iss = b.one().seg.seq;
    b.inject(SYN, 0, 0, 8000, &[]);
    assert_eq!(b.state(), State::SynReceived);
    let answer = b.one();
    assert_eq!((answer.flags(), b.rel_seq(&answer), b.rel_ack(&answer)), (SYN | ACK, 0, 1));
    b.inject(SYN | ACK, 0, 1, 8000, &[]);
    assert_eq!(b.state(), State::Established);
    assert_eq!(b.events(), [ConnEvents::CONNECTED]);
    b.send(b"x");
    assert_eq!(b.one().data, b"x");
}

#[test]
fn a_syn_ack_in_two_parts_is_a_handshake_too() {
    let mut b = Bench::new(plain());
    b.connect(ConnOptions::default());
    b.iss = b.one().seg.seq;
    b.inject(ACK, 0, 1, 8000, &[]);
    b.silent();
    b.inject(SYN, 0, 0, 8000, &[]);
    assert_eq!(b.one().flags(), SYN | ACK);
    b.inject(ACK, 1, 1, 8000, &[]);
    assert_eq!(b.state(), State::Established);
}

#[test]
fn a_closed_port_answers_with_the_right_reset() {
    let mut b = Bench::new(plain());
    assert_eq!(b.inject(SYN, 0, 0, 8000, b"abc"), Some(Drop::TcpPortClosed));
    let reset = b.one();
    assert_eq!((reset.flags(), reset.seg.seq, b.rel_ack(&reset)), (RST | ACK, Seq(0), 4));
    b.inject(ACK | FIN, 0, 5, 8000, &[]);
    let reset = b.one();
    assert_eq!((reset.flags(), reset.seg.seq), (RST, Seq(5)));
    assert_eq!(b.inject(RST, 0, 0, 0, &[]), Some(Drop::TcpResetForNobody));
    b.silent();
}

#[test]
fn senseless_flags_to_a_listener_are_met_with_silence() {
    let mut b = Bench::new(plain());
    b.listen(8);
    for flags in [Flags::NONE, FIN, SYN | FIN, FIN | PSH | Flags::URG, SYN | FIN | PSH | Flags::URG]
    {
        assert_eq!(b.inject(flags, 0, 0, 8000, &[]), Some(Drop::TcpBadFlags), "{flags}");
    }
    assert_eq!(b.inject(SYN | RST, 0, 0, 8000, &[]), Some(Drop::TcpResetForNobody));
    b.silent();
}

fn syn_from(b: &mut Bench, port: u16, opts: TcpOptions) -> Option<Drop> {
    let syn = Segment { src_port: port, opts, ..b.segment(SYN, 0, 0, 8000) };
    b.put(syn, &[])
}

#[test]
fn a_full_backlog_answers_with_cookies_that_come_back_as_connections() {
    let mut b = Bench::new(config());
    let listener = b.listen(4);
    for port in 1..=4 {
        syn_from(&mut b, port, TcpOptions::NONE);
    }
    assert_eq!(b.out().len(), 4);
    let opts = TcpOptions {
        mss: Some(1400),
        wscale: Some(4),
        sack_permitted: true,
        ts: Some((100, 0)),
        ..TcpOptions::NONE
    };
    syn_from(&mut b, 500, opts);
    let answer = b.one();
    assert_eq!(answer.flags(), SYN | ACK);
    assert_eq!(b.counters().syn_cookies_sent, 1);
    let (ours, echo) = answer.seg.opts.ts.unwrap();
    assert_eq!(echo, 100);
    let ts = TcpOptions { ts: Some((101, ours)), ..TcpOptions::NONE };
    let ack =
        Segment { src_port: 500, ack: answer.seg.seq + 1, opts: ts, ..b.segment(ACK, 1, 0, 200) };
    b.put(ack, b"request");
    assert_eq!(b.counters().syn_cookies_accepted, 1);
    let conn = b.net.stack.accept(listener).unwrap();
    b.conn = Some(conn);
    let i = b.info();
    assert!(i.sack && i.timestamps);
    assert_eq!((i.snd_wscale, i.snd_mss, i.snd_wnd), (Some(4), 1360 - 12, 3200));
    assert_eq!(b.net.stack.recv(conn).unwrap(), b"request");
}

#[test]
fn a_forged_cookie_is_reset_and_without_a_flood_cookies_are_not_even_looked_at() {
    let mut b = Bench::new(plain());
    b.listen(1);
    assert_eq!(b.inject(ACK, 1, 12345, 8000, &[]), Some(Drop::TcpNoHandshake));
    assert_eq!(b.one().flags(), RST);
    assert_eq!(b.counters().syn_cookies_failed, 0);
    syn_from(&mut b, 1, TcpOptions::NONE);
    syn_from(&mut b, 2, TcpOptions::NONE);
    assert_eq!(b.out().len(), 2);
    assert_eq!(b.inject(ACK, 1, 12345, 8000, &[]), Some(Drop::TcpNoHandshake));
    b.silent();
    assert_eq!(b.counters().syn_cookies_failed, 1);
}

#[test]
fn with_cookies_off_a_full_backlog_drops_and_a_full_accept_queue_always_does() {
    let mut config = plain();
    config.tcp.syn_cookies = false;
    let mut b = Bench::new(config);
    let listener = b.listen(1);
    syn_from(&mut b, 1, TcpOptions::NONE);
    let first = b.one();
    assert_eq!(syn_from(&mut b, 2, TcpOptions::NONE), Some(Drop::TcpBacklogFull));
    b.silent();
    let ack = Segment { src_port: 1, ack: first.seg.seq + 1, ..b.segment(ACK, 1, 0, 100) };
    assert_eq!(b.put(ack, &[]), None);
    assert_eq!(syn_from(&mut b, 2, TcpOptions::NONE), Some(Drop::TcpAcceptQueueFull));
    assert!(b.net.stack.accept(listener).is_some());
    assert_eq!(syn_from(&mut b, 2, TcpOptions::NONE), None);
}

#[test]
fn a_listener_that_waits_for_data_is_told_when_there_is_some() {
    let mut b = Bench::new(plain());
    let listener = b.listen(2);
    b.net.stack.tune_listener(listener, 2, 3);
    for port in [2, 1] {
        syn_from(&mut b, port, TcpOptions::NONE);
        let answer = b.one();
        let ack = Segment { src_port: port, ack: answer.seg.seq + 1, ..b.segment(ACK, 1, 0, 100) };
        assert_eq!(b.put(ack, &[]), Some(Drop::TcpDeferred));
        assert_eq!(b.net.stack.accept(listener), None);
        b.silent();
        assert_eq!(
            b.put(ack, if port == 1 { b"GET" } else { b"" }),
            (port == 2).then_some(Drop::TcpDeferred)
        );
        b.out();
    }
    let conn = b.net.stack.accept(listener).expect("data has come");
    assert_eq!(b.net.stack.recv(conn).unwrap(), b"GET");
    // The other says nothing. Our SYN is said again only when the time is over, 1 + 2 + 4 seconds
    // after the first, and whatever comes then is enough.
    let again = b.pass(secs(8));
    let [(when, syn_ack)] = &again[..] else { panic!("{again:?}") };
    assert!((secs(7)..secs(8)).contains(when), "{when:?}");
    assert_eq!(syn_ack.flags(), SYN | ACK);
    let ack = Segment { src_port: 2, ack: syn_ack.seg.seq + 1, ..b.segment(ACK, 1, 0, 100) };
    assert_eq!(b.put(ack, &[]), None);
    assert!(b.net.stack.accept(listener).is_some());
}

/// The last answer to a SYN may be the first that arrives.
#[test]
fn a_handshake_is_not_given_up_with_an_answer_on_its_way() {
    let mut b = Bench::new(plain());
    let listener = b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    let first = b.one();
    // 63 seconds after the first answer it would be forgotten.
    b.pass(Duration::from_millis(62_950));
    b.inject(SYN, 0, 0, 8000, &[]);
    b.out();
    b.pass(ms(900));
    let ack = Segment { ack: first.seg.seq + 1, ..b.segment(ACK, 1, 0, 8000) };
    assert_eq!(b.put(ack, &[]), None);
    assert!(b.net.stack.accept(listener).is_some());
    // Without an ACK it is over a second later.
    let mut b = Bench::new(plain());
    b.listen(8);
    b.inject(SYN, 0, 0, 8000, &[]);
    b.pass(Duration::from_millis(62_950));
    b.inject(SYN, 0, 0, 8000, &[]);
    b.out();
    b.pass(ms(1_100));
    assert_eq!((b.counters().half_open_timeouts, b.net.stack.population().half_open), (1, 0));
}

#[test]
fn a_peer_that_never_speaks_is_given_up_with_the_others() {
    let mut b = Bench::new(plain());
    let listener = b.listen(2);
    b.net.stack.tune_listener(listener, 2, 1);
    syn_from(&mut b, 1, TcpOptions::NONE);
    let answer = b.one();
    let ack = Segment { src_port: 1, ack: answer.seg.seq + 1, ..b.segment(ACK, 1, 0, 100) };
    assert_eq!(b.put(ack, &[]), Some(Drop::TcpDeferred));
    b.pass(secs(200));
    assert_eq!(b.counters().half_open_timeouts, 1);
    assert_eq!(b.net.stack.accept(listener), None);
}

#[test]
fn the_last_ack_waits_while_the_accept_queue_is_full() {
    let mut b = Bench::new(plain());
    let listener = b.listen(2);
    let mut answers = Vec::new();
    for port in 1..=2 {
        syn_from(&mut b, port, TcpOptions::NONE);
        answers.push(b.one().seg.seq);
    }
    b.net.stack.unlisten(listener);
    let ack = Segment { src_port: 1, ack: answers[0] + 1, ..b.segment(ACK, 1, 0, 100) };
    assert_eq!(b.put(ack, &[]), Some(Drop::TcpPortClosed));
    assert_eq!(b.one().flags(), RST);
}

#[test]
fn connections_that_nobody_accepted_are_reset_with_their_listener() {
    let mut b = Bench::new(plain());
    let listener = b.listen(2);
    b.inject(SYN, 0, 0, 8000, &[]);
    b.iss = b.one().seg.seq;
    b.inject(ACK, 1, 1, 8000, &[]);
    b.net.stack.unlisten(listener);
    assert_eq!(b.one().flags(), RST | ACK);
    assert_eq!(b.net.stack.tcp.open.len(), 0);
    assert_eq!(b.net.stack.tcp.flows.len(), 0);
}

#[test]
fn over_ipv6_all_is_the_same() {
    let mut b = Bench::new(plain());
    (b.local, b.remote) = ("2001:db8::1", "2001:db8::2");
    b.listen(8);
    b.handshake(TcpOptions::NONE, 8000);
    assert_eq!(b.info().snd_mss, 1220);
    assert_eq!(b.info().advertised_mss, 1440);
    b.inject(ACK, 1, 1, 8000, b"six");
    assert_eq!(b.read_all(), b"six");
}

#[test]
fn source_ports_differ_and_a_pair_in_use_is_refused() {
    let mut b = Bench::new(plain());
    let spec = |port| ConnectSpec {
        table: Table(0),
        local: Some(Endpoint::new(addr(US), port)),
        remote: Endpoint::new(addr(PEER), PEER_PORT),
        token: 0,
        options: ConnOptions::default(),
    };
    let now = b.net.now;
    let s = &mut b.net.stack;
    assert!(s.connect(now, spec(1234)).is_ok());
    assert_eq!(s.connect(now, spec(1234)), Err(ConnectError::InUse));
    let a = s.connect(now, spec(0)).unwrap();
    let c = s.connect(now, spec(0)).unwrap();
    assert_ne!(s.local(a), s.local(c));
    let bad = ConnectSpec { remote: Endpoint::new(addr("224.0.0.1"), 1), ..spec(0) };
    assert_eq!(s.connect(now, bad), Err(ConnectError::BadAddress));
    let nowhere = ConnectSpec { remote: Endpoint::new(addr("192.0.2.1"), 1), ..spec(0) };
    assert_eq!(s.connect(now, nowhere), Err(ConnectError::NoRoute));
}

#[test]
fn a_cookie_is_good_though_a_later_copy_of_the_syn_was_remembered() {
    let mut b = Bench::new(plain());
    let listener = b.listen(1);
    syn_from(&mut b, 1, TcpOptions::NONE);
    let other = b.one();
    syn_from(&mut b, PEER_PORT, TcpOptions::NONE);
    let cookie = b.one();
    assert_eq!(b.counters().syn_cookies_sent, 1);
    // The place becomes free, and the copy of the SYN gets it.
    let reset = Segment { src_port: 1, ..b.segment(RST, 1, 0, 0) };
    b.put(reset, &[]);
    syn_from(&mut b, PEER_PORT, TcpOptions::NONE);
    let remembered = b.one();
    assert_ne!(remembered.seg.seq, cookie.seg.seq);
    b.iss = cookie.seg.seq;
    assert_eq!(b.inject(ACK, 1, 1, 8000, b"hello"), None);
    let conn = b.net.stack.accept(listener).unwrap();
    assert_eq!(b.net.stack.recv(conn).unwrap(), b"hello");
    assert_eq!(b.net.stack.tcp.flows.len(), 1);
    let _ = other;
}

#[test]
fn after_two_lost_syns_the_first_window_is_one_segment() {
    for (seconds, repeated, segments) in [(0, 0, 10), (2, 1, 10), (4, 2, 1)] {
        let mut b = Bench::new(plain());
        b.connect(ConnOptions::default());
        b.iss = b.one().seg.seq;
        assert_eq!(b.pass(secs(seconds)).len(), repeated);
        let opts = TcpOptions { mss: Some(1000), ..TcpOptions::NONE };
        b.put(Segment { opts, ..b.segment(SYN | ACK, 0, 1, 60_000) }, &[]);
        b.out();
        assert_eq!(b.info().cwnd, segments * 1000, "RFC 5681 3.1");
    }
}

#[test]
fn after_two_lost_syn_acks_the_first_window_is_one_segment() {
    for (seconds, repeated, segments) in [(0, 0, 10), (2, 1, 10), (4, 2, 1)] {
        let mut b = Bench::new(plain());
        let listener = b.listen(4);
        let opts = TcpOptions { mss: Some(1000), ..TcpOptions::NONE };
        syn_from(&mut b, PEER_PORT, opts);
        b.iss = b.one().seg.seq;
        assert_eq!(b.pass(secs(seconds)).len(), repeated);
        assert_eq!(b.inject(ACK, 1, 1, 60_000, &[]), None);
        b.conn = b.net.stack.accept(listener);
        assert_eq!(b.info().cwnd, segments * 1000, "RFC 5681 3.1");
    }
}

#[test]
fn tos_and_ttl_of_a_connection_are_its_owners() {
    for remote in [PEER, "2001:db8::2"] {
        let mut b = Bench::new(plain());
        b.remote = remote;
        b.connect(ConnOptions { tos: 0x20, ttl: 7, ..ConnOptions::default() });
        for packet in b.net.emit() {
            let seen = match packet[0] >> 4 {
                4 => ipv4::check(&packet, true).map(|ip| (ip.tos(), ip.ttl())).unwrap(),
                _ => ipv6::check(&packet).map(|ip| (ip.traffic_class(), ip.hop_limit())).unwrap(),
            };
            assert_eq!(seen, (0x20, 7));
        }
    }
}

#[test]
fn timestamps_count_milliseconds() {
    let mut b =
        Bench::connected(config(), TcpOptions { ts: Some((1, 0)), ..TcpOptions::NONE }, 8000);
    let mut stamps = Vec::new();
    for _ in 0..3 {
        b.send(b"x");
        let seen = b.one();
        stamps.push(seen.seg.opts.ts.unwrap().0);
        b.inject(ACK, 1, b.rel_seq(&seen) + 1, 8000, &[]);
        b.pass(ms(250));
    }
    assert_eq!((stamps[1].wrapping_sub(stamps[0]), stamps[2].wrapping_sub(stamps[1])), (250, 250));
}

#[test]
fn push_stands_where_the_written_bytes_end() {
    let mut b = Bench::accepted(plain(), 1000, 60_000);
    b.send(&pattern(2500));
    let seen: Vec<_> =
        b.out().iter().map(|seen| (seen.data.len(), seen.flags().contains(PSH))).collect();
    assert_eq!(seen, [(1000, false), (1000, false), (500, true)]);
}
