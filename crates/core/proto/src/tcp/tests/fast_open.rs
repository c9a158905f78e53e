//! Fast Open (RFC 7413): cookies, data on the SYN both ways, and what happens when it is lost.

use super::*;
use crate::limits::{FAST_OPEN_PEERS, FAST_OPEN_PENDING};
use clearway_wire::tcp::FastOpenCookie;

const REQUEST: FastOpenCookie = FastOpenCookie::REQUEST;

const WAITS: FastOpenConnect = FastOpenConnect { waits_for_data: true, without_cookie: false };

fn takes(pending: u32) -> FastOpenListener {
    FastOpenListener { pending, ..FastOpenListener::default() }
}

fn options(cookie: Option<FastOpenCookie>) -> TcpOptions {
    TcpOptions { mss: Some(1000), fast_open: cookie, ..TcpOptions::NONE }
}

/// A listener that takes so many connections opened by cookies, and the cookie that it gives its
/// peer.
fn serving(config: Config, pending: u32) -> (Bench, ListenerId, FastOpenCookie) {
    let mut b = Bench::new(config);
    let listener = b.listen(8);
    b.net.stack.set_fast_open(listener, takes(pending));
    let syn = Segment { src_port: 1, opts: options(Some(REQUEST)), ..b.segment(SYN, 0, 0, 8000) };
    assert_eq!(b.put(syn, &[]), None);
    let cookie = b.one().seg.opts.fast_open.expect("a cookie");
    assert_eq!(cookie.as_slice().len(), 8);
    b.put(Segment { src_port: 1, ..b.segment(RST, 1, 0, 0) }, &[]);
    (b, listener, cookie)
}

/// The peer's SYN with a cookie and data, from a port; what answers it.
fn syn_with(b: &mut Bench, port: u16, cookie: Option<FastOpenCookie>, data: &[u8]) -> Seen {
    let syn = Segment { src_port: port, opts: options(cookie), ..b.segment(SYN, 0, 0, 8000) };
    assert_eq!(b.put(syn, data), None);
    let answer = b.one();
    assert_eq!(answer.flags(), SYN | ACK);
    b.iss = answer.seg.seq;
    answer
}

#[test]
fn data_on_a_syn_with_a_good_cookie_is_taken_and_answered_before_the_handshake_is_done() {
    let (mut b, listener, cookie) = serving(plain(), 4);
    let answer = syn_with(&mut b, PEER_PORT, Some(cookie), b"question");
    assert_eq!((answer.seg.ack, answer.data.len()), (b.peer_iss + 9, 0));
    assert_eq!(b.net.stack.next_event(), Some(Event::Incoming { listener, token: 7 }));
    let conn = b.net.stack.accept(listener).unwrap();
    b.conn = Some(conn);
    assert_eq!(b.net.stack.state(conn), State::SynReceived);
    assert_eq!(b.read_all(), b"question");
    b.send(b"answer");
    let early = b.one();
    assert_eq!(
        (early.data.as_slice(), early.seg.ack, b.rel_seq(&early)),
        (&b"answer"[..], b.peer_iss + 9, 1)
    );
    assert_eq!(b.inject(ACK, 9, 7, 8000, b" more"), None);
    assert_eq!(b.net.stack.state(conn), State::Established);
    assert_eq!(b.read_all(), b" more");
    assert_eq!(b.one().seg.ack, b.peer_iss + 14);
    assert_eq!((b.info().unacked, b.info().bytes_acked, b.info().bytes_received), (0, 6, 13));
    let counted = b.counters();
    assert_eq!(
        (counted.fast_open_passive, counted.fast_open_cookies_given, counted.passive_opens),
        (1, 1, 1)
    );
    let again = b.pass(secs(5));
    assert!(again.is_empty(), "nothing is sent again: {again:?}");
}

#[test]
fn a_cookie_that_is_not_ours_opens_nothing_and_is_answered_with_a_good_one() {
    let (mut b, listener, cookie) = serving(plain(), 4);
    let wrong = FastOpenCookie::new(&[7; 8]).unwrap();
    let answer = syn_with(&mut b, PEER_PORT, Some(wrong), b"question");
    assert_eq!((answer.seg.ack, answer.seg.opts.fast_open), (b.peer_iss + 1, Some(cookie)));
    assert_eq!((b.net.stack.accept(listener), b.counters().fast_open_cookies_refused), (None, 1));
    // The data comes again with the handshake.
    assert_eq!(b.inject(ACK, 1, 1, 8000, b"question"), None);
    let conn = b.net.stack.accept(listener).unwrap();
    assert_eq!(b.net.stack.recv(conn).unwrap(), b"question");
}

#[test]
fn who_listens_without_it_neither_gives_nor_takes_cookies() {
    let (mut b, listener, cookie) = serving(plain(), 4);
    b.net.stack.set_fast_open(listener, takes(0));
    assert_eq!(syn_with(&mut b, 5, Some(REQUEST), &[]).seg.opts.fast_open, None);
    let answer = syn_with(&mut b, PEER_PORT, Some(cookie), b"question");
    assert_eq!((answer.seg.ack, answer.seg.opts.fast_open), (b.peer_iss + 1, None));
}

#[test]
fn beyond_the_bound_of_pending_ones_handshakes_are_as_ever() {
    let (mut b, listener, cookie) = serving(plain(), 2);
    for port in [11, 12] {
        assert_eq!(syn_with(&mut b, port, Some(cookie), b"x").seg.ack, b.peer_iss + 2);
    }
    let first = b.iss;
    assert_eq!(syn_with(&mut b, 13, Some(cookie), b"x").seg.ack, b.peer_iss + 1);
    assert_eq!(b.counters().fast_open_overflows, 1);
    // One that is complete makes room, and so does one that is reset.
    b.iss = first;
    b.put(Segment { src_port: 12, ..b.segment(ACK, 2, 1, 8000) }, &[]);
    assert_eq!(syn_with(&mut b, 14, Some(cookie), b"x").seg.ack, b.peer_iss + 2);
    b.put(Segment { src_port: 14, ..b.segment(RST, 2, 0, 0) }, &[]);
    assert_eq!(syn_with(&mut b, 15, Some(cookie), b"x").seg.ack, b.peer_iss + 2);
    // And over all listeners.
    let pending = &mut b.net.stack.tcp.pools.fast_open;
    for port in 0..FAST_OPEN_PENDING as u16 {
        let (local, remote) = (addr(US), addr(PEER));
        let key = crate::flow::FlowKey {
            local,
            remote,
            local_port: 1,
            remote_port: port,
            table: Table(0),
        };
        pending.opened(key, listener, None);
    }
    assert!(!pending.may_open(listener, u32::MAX));
}

#[test]
fn the_syn_ack_of_an_early_connection_is_repeated_and_then_it_fails() {
    let (mut b, listener, cookie) = serving(plain(), 4);
    let first = syn_with(&mut b, PEER_PORT, Some(cookie), b"question");
    let conn = b.net.stack.accept(listener).unwrap();
    b.conn = Some(conn);
    // The client has heard nothing, and says its SYN without cookie and data (RFC 7413 4.2.1).
    assert_eq!(b.inject(SYN, 0, 0, 8000, &[]), None);
    assert_eq!(b.one().seg.ack, first.seg.ack);
    let again = b.pass(secs(200));
    let retries = usize::from(config().tcp.syn_ack_retries);
    assert_eq!(
        again.iter().filter(|(_, s)| s.flags() == SYN | ACK && s.seg.ack == first.seg.ack).count(),
        retries
    );
    assert_eq!(b.net.stack.failure(conn), Some(Failure::TimedOut));
    b.net.stack.close(conn);
    // Its place among the pending ones is free.
    assert!(b.net.stack.tcp.pools.fast_open.may_open(listener, 1));
}

#[test]
fn the_end_of_an_early_connection_waits_for_its_handshake() {
    let (mut b, listener, cookie) = serving(plain(), 4);
    syn_with(&mut b, PEER_PORT, Some(cookie), b"question");
    let conn = b.net.stack.accept(listener).unwrap();
    b.conn = Some(conn);
    let _ = b.net.stack.recv(conn);
    b.send(b"bye");
    b.net.stack.shutdown(conn).unwrap();
    let seen = b.out();
    assert_eq!(
        (seen.len(), seen[0].data.as_slice(), seen[0].flags().fin()),
        (1, &b"bye"[..], false)
    );
    assert_eq!(b.inject(ACK, 9, 4, 8000, &[]), None);
    assert!(b.one().flags().fin());
    assert_eq!(b.net.stack.state(conn), State::FinWait1);
}

#[test]
fn cookies_of_the_key_before_are_taken_until_it_goes_and_new_ones_are_given() {
    let (mut b, _, old) = serving(plain(), 8);
    let (first, second) = (Some([1; 16]), Some([2; 16]));
    b.net.stack.reconfigure_tcp(|tcp| tcp.fast_open_keys = [first, None]);
    let answer = syn_with(&mut b, 21, Some(old), b"x");
    assert_eq!(answer.seg.ack, b.peer_iss + 1, "the derived key is gone");
    let given = answer.seg.opts.fast_open.unwrap();
    b.net.stack.reconfigure_tcp(|tcp| tcp.fast_open_keys = [second, first]);
    let answer = syn_with(&mut b, 22, Some(given), b"x");
    assert_eq!(answer.seg.ack, b.peer_iss + 2);
    let newer = answer.seg.opts.fast_open.expect("a new cookie");
    assert_ne!(newer, given);
    b.net.stack.reconfigure_tcp(|tcp| tcp.fast_open_keys = [second, None]);
    assert_eq!(syn_with(&mut b, 23, Some(given), b"x").seg.ack, b.peer_iss + 1);
    assert_eq!(syn_with(&mut b, 24, Some(newer), b"x").seg.ack, b.peer_iss + 2);
}

/// Connects with Fast Open and writes; the SYN that leaves.
fn opens(b: &mut Bench, data: &[u8]) -> Seen {
    let spec = ConnectSpec {
        table: Table(0),
        local: None,
        remote: Endpoint::new(addr(b.remote), PEER_PORT),
        token: 99,
        options: ConnOptions { nodelay: true, ..ConnOptions::default() },
    };
    let conn = b.net.stack.connect_fast_open(b.net.now, spec).unwrap();
    b.conn = Some(conn);
    b.port = b.net.stack.local(conn).unwrap().port;
    assert_eq!(b.net.stack.send(conn, data), Ok(data.len()));
    let syn = b.one();
    assert_eq!(syn.flags(), SYN);
    b.iss = syn.seg.seq;
    syn
}

/// The peer's SYN-ACK of `ack` bytes, with a cookie perhaps.
fn answers(b: &mut Bench, ack: u32, cookie: Option<FastOpenCookie>) {
    let seg = Segment { opts: options(cookie), ..b.segment(SYN | ACK, 0, 1 + ack, 8000) };
    assert_eq!(b.put(seg, &[]), None);
}

#[test]
fn a_client_asks_for_a_cookie_and_sends_data_with_its_next_syn() {
    let mut b = Bench::new(plain());
    let cookie = FastOpenCookie::new(&[5; 8]).unwrap();
    let syn = opens(&mut b, b"first");
    assert_eq!((syn.seg.opts.fast_open, syn.data.len()), (Some(REQUEST), 0));
    answers(&mut b, 0, Some(cookie));
    assert_eq!(b.one().data, b"first");

    // All of it is taken.
    let syn = opens(&mut b, b"second");
    assert_eq!((syn.seg.opts.fast_open, syn.data.as_slice()), (Some(cookie), &b"second"[..]));
    answers(&mut b, 6, None);
    assert_eq!(b.one().data.len(), 0);
    assert_eq!((b.info().bytes_acked, b.info().unacked, b.info().unsent), (6, 0, 0));

    // A part, and none: the rest leaves again at once. No more leaves than the server takes in a
    // segment, with room for all options that a segment may have.
    let syn = opens(&mut b, &pattern(1500));
    assert_eq!(syn.data.len(), 1000 - clearway_wire::tcp::MAX_OPTIONS_LEN);
    answers(&mut b, 400, None);
    assert_eq!(
        b.out().iter().map(|s| (b.rel_seq(s), s.data.len())).collect::<Vec<_>>(),
        [(401, 1000), (1401, 100)]
    );
    opens(&mut b, b"third");
    answers(&mut b, 0, None);
    let seen = b.one();
    assert_eq!((b.rel_seq(&seen), seen.data.as_slice()), (1, &b"third"[..]));
    let counted = b.counters();
    assert_eq!(
        (counted.fast_open_active, counted.fast_open_not_taken, counted.retransmit_timeouts),
        (2, 1, 0)
    );
}

#[test]
fn a_syn_that_may_bring_data_waits_for_it_and_no_other_does() {
    let mut b = Bench::new(plain());
    let begin = |b: &mut Bench| {
        let id = b.connect(ConnOptions::default());
        let now = b.net.now;
        b.net.stack.begin_fast_open(now, id, WAITS)
    };
    // There is no cookie yet: the SYN asks for one at once.
    assert!(!begin(&mut b));
    let syn = b.one();
    b.iss = syn.seg.seq;
    assert_eq!(syn.seg.opts.fast_open, Some(REQUEST));
    answers(&mut b, 0, FastOpenCookie::new(&[5; 8]));
    b.out();

    assert!(begin(&mut b));
    assert!(
        b.pass(secs(100)).iter().all(|(_, seen)| seen.seg.src_port != b.port),
        "nothing waits for an answer"
    );
    b.silent();
    b.send(b"early");
    let syn = b.one();
    assert_eq!((syn.flags(), syn.data.as_slice()), (SYN, &b"early"[..]));
    b.iss = syn.seg.seq;
    answers(&mut b, 5, None);
    assert_eq!((b.state(), b.info().unacked), (State::Established, 0));
    b.out();

    // Who closes without a word has sent nothing; who says that no more comes has a SYN.
    assert!(begin(&mut b));
    let id = b.id();
    b.net.stack.close(id);
    b.silent();
    assert!(begin(&mut b));
    let id = b.id();
    b.net.stack.shutdown(id).unwrap();
    assert_eq!(b.one().flags(), SYN);
}

#[test]
fn who_may_use_it_is_configured() {
    let mut config = plain();
    config.tcp.fast_open = FastOpenMode::of(0);
    let mut b = Bench::new(config);
    assert_eq!(opens(&mut b, b"data").seg.opts.fast_open, None);
    let listener = b.listen(8);
    b.net.stack.set_fast_open(listener, takes(4));
    b.port = PORT;
    assert_eq!(syn_with(&mut b, 5, Some(REQUEST), &[]).seg.opts.fast_open, None);
}

#[test]
fn a_syn_that_is_lost_with_its_data_comes_again_without_and_for_a_while_all_do() {
    let mut b = Bench::new(plain());
    let cookie = FastOpenCookie::new(&[5; 8]).unwrap();
    opens(&mut b, b"first");
    answers(&mut b, 0, Some(cookie));
    b.out();
    b.inject(ACK, 1, 6, 8000, &[]);
    for pause in [60, 120] {
        assert_eq!(opens(&mut b, b"data").seg.opts.fast_open, Some(cookie));
        let again: Vec<_> =
            b.pass(ms(1500)).into_iter().filter(|(_, s)| s.seg.src_port == b.port).collect();
        assert_eq!(again.len(), 1);
        let (_, syn) = &again[0];
        assert_eq!((syn.flags(), syn.seg.opts.fast_open, syn.data.len()), (SYN, None, 0));
        answers(&mut b, 0, None);
        assert_eq!(b.one().data, b"data");
        b.inject(ACK, 1, 5, 8000, &[]);
        assert_eq!(opens(&mut b, b"data").seg.opts.fast_open, None);
        b.net.now += secs(pause);
    }
    assert_eq!(b.counters().fast_open_lost, 2);
    // The data may have come after all: then nothing is sent twice.
    b.net.now += secs(120);
    assert_eq!(opens(&mut b, b"data").data, b"data");
    b.pass(ms(1500));
    answers(&mut b, 4, None);
    assert_eq!((b.one().data.len(), b.info().bytes_acked), (0, 4));
}

#[test]
fn cookies_of_so_many_servers_are_kept_and_the_one_used_last_goes_last() {
    let mut kept = crate::tcp::fast_open::FastOpen::new();
    let local = addr(US);
    let server = |n: usize| Addr::v4([192, 0, (n / 256) as u8, (n % 256) as u8]);
    let key = |n| crate::flow::FlowKey {
        local,
        remote: server(n),
        local_port: 1,
        remote_port: 2,
        table: Table(0),
    };
    let cookie = FastOpenCookie::new(&[5; 8]).unwrap();
    let at = |n: usize| Instant::from_millis(n as u64);
    for n in 0..FAST_OPEN_PEERS {
        kept.answered(at(n), &key(n), Some(cookie), 1000);
    }
    assert_eq!(kept.say(at(10_000), local, server(0)), Some((cookie, 1000)));
    kept.answered(at(20_000), &key(FAST_OPEN_PEERS), Some(cookie), 1000);
    assert_eq!(kept.say(at(30_000), local, server(0)), Some((cookie, 1000)));
    assert_eq!(kept.say(at(30_000), local, server(1)), Some((REQUEST, 0)));
}

#[test]
fn who_wants_no_cookies_takes_data_without_and_gives_none() {
    for by_mode in [false, true] {
        let mut config = plain();
        config.tcp.fast_open = FastOpenMode::of(if by_mode { 0x203 } else { 3 });
        let mut b = Bench::new(config);
        let listener = b.listen(8);
        let how = FastOpenListener { without_cookie: !by_mode, ..takes(4) };
        b.net.stack.set_fast_open(listener, how);
        let answer = syn_with(&mut b, PEER_PORT, None, b"question");
        assert_eq!((answer.seg.ack, answer.seg.opts.fast_open), (b.peer_iss + 9, None));
        assert_eq!(b.net.stack.accept(listener).map(|c| b.net.stack.unread(c)), Some(8));
        // A SYN without data and without the option is as ever.
        assert_eq!(syn_with(&mut b, 6, None, &[]).seg.ack, b.peer_iss + 1);
        assert_eq!(b.net.stack.accept(listener), None);
        // Whatever cookie comes is good.
        let any = FastOpenCookie::new(&[9; 8]);
        assert_eq!(syn_with(&mut b, 7, any, b"x").seg.ack, b.peer_iss + 2);
        assert_eq!(b.counters().fast_open_cookies_refused, 0);
    }
}

#[test]
fn every_listener_takes_data_where_that_is_configured() {
    let mut config = plain();
    config.tcp.fast_open = FastOpenMode::of(0x602);
    let mut b = Bench::new(config);
    b.listen(1);
    assert_eq!(syn_with(&mut b, 5, None, b"x").seg.ack, b.peer_iss + 2);
    // As many as its backlog.
    let (syn, _) = (b.segment(SYN, 0, 0, 8000), ());
    let syn = Segment { src_port: 6, ..syn };
    b.put(syn, b"x");
    assert!(b.out().iter().all(|seen| seen.seg.ack != b.peer_iss + 2));
}

#[test]
fn a_client_that_wants_no_cookie_sends_data_with_its_first_syn() {
    for by_mode in [false, true] {
        let mut config = plain();
        config.tcp.fast_open = FastOpenMode::of(if by_mode { 5 } else { 1 });
        let mut b = Bench::new(config);
        let id = b.connect(ConnOptions { nodelay: true, ..ConnOptions::default() });
        let how = FastOpenConnect { without_cookie: !by_mode, ..WAITS };
        let now = b.net.now;
        assert!(b.net.stack.begin_fast_open(now, id, how));
        b.silent();
        b.send(&pattern(600));
        let syn = b.one();
        // The server never said how much it takes.
        assert_eq!((syn.flags(), syn.seg.opts.fast_open, syn.data.len()), (SYN, None, 536 - 40));
        b.iss = syn.seg.seq;
        answers(&mut b, 496, None);
        assert_eq!(b.one().data.len(), 104);
        assert!(b.info().syn_data);
    }
}

#[test]
fn a_listener_with_keys_of_its_own_gives_and_takes_their_cookies() {
    let (mut b, listener, cookie) = serving(plain(), 8);
    let (first, second) = (Some([1; 16]), Some([2; 16]));
    b.net.stack.set_fast_open(listener, FastOpenListener { keys: [first, None], ..takes(8) });
    let answer = syn_with(&mut b, 21, Some(cookie), b"x");
    assert_eq!(answer.seg.ack, b.peer_iss + 1, "the stack's key is not the listener's");
    let given = answer.seg.opts.fast_open.unwrap();
    b.net.stack.set_fast_open(listener, FastOpenListener { keys: [second, first], ..takes(8) });
    let answer = syn_with(&mut b, 22, Some(given), b"x");
    assert_eq!(answer.seg.ack, b.peer_iss + 2);
    let newer = answer.seg.opts.fast_open.expect("a cookie made with the present key");
    let answer = syn_with(&mut b, 23, Some(newer), b"x");
    assert_eq!((answer.seg.ack, answer.seg.opts.fast_open), (b.peer_iss + 2, None));
}

#[test]
fn keys_are_read_as_linux_writes_them() {
    use crate::config::fast_open_keys;
    let key = [0x67, 0x45, 0x23, 0x01, 0xef, 0xcd, 0xab, 0x89, 1, 0, 0, 0, 0, 0, 0, 0x80];
    let text = "01234567-89abcdef-00000001-80000000";
    assert_eq!(fast_open_keys(text), Some([Some(key), None]));
    assert_eq!(fast_open_keys(&alloc::format!("1-2-3-4,{text}")).unwrap()[1], Some(key));
    for wrong in ["", "1-2-3", "1-2-3-4-5", "1-2-3-", "1-2-3-g", "1-2-3-4,", "123456789-1-1-1"] {
        assert_eq!(fast_open_keys(wrong), None, "{wrong}");
    }
}

#[test]
fn stacks_with_one_secret_take_each_others_cookies() {
    let of_secret = |first| {
        let mut config = plain();
        config.secret[0] = first;
        serving(config, 4)
    };
    let ((_, _, cookie), (_, _, other)) = (of_secret(1), of_secret(2));
    assert_ne!(cookie, other, "the key follows from the secret");
    let (mut b, ..) = of_secret(1);
    assert_eq!(syn_with(&mut b, PEER_PORT, Some(cookie), b"question").seg.ack, b.peer_iss + 9);
}
