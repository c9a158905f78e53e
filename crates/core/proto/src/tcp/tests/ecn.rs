//! Explicit congestion notification of whole connections: against a peer written by hand, and
//! between two stacks with a link that marks.

use std::rc::Rc;

use clearway_wire::Ecn;
use clearway_wire::tcp::AccEcn;

use super::*;

const ECE: Flags = Flags::ECE;
const CWR: Flags = Flags::CWR;

/// The codepoint of a packet over a raw link.
fn mark_of(packet: &[u8]) -> Ecn {
    if packet[0] >> 4 == 4 { Ecn::of(packet[1]) } else { Ecn::of(packet[1] >> 4) }
}

fn set_mark(packet: &mut [u8], mark: Ecn) {
    if packet[0] >> 4 == 4 {
        packet[1] = packet[1] & !3 | mark as u8;
        packet[10..12].fill(0);
        let sum = clearway_wire::checksum::sum(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[1] = packet[1] & !0x30 | (mark as u8) << 4;
    }
}

fn mode(ecn: EcnMode) -> ConnOptions {
    ConnOptions { ecn, nodelay: true, ..ConnOptions::default() }
}

impl Bench {
    /// A segment of the peer arrives with this codepoint.
    pub(super) fn put_marked(&mut self, mark: Ecn, seg: Segment, data: &[u8]) -> Option<Drop> {
        let mut packet = tcp_packet(self.remote, self.local, &seg, data);
        set_mark(&mut packet, mark);
        self.net.ingest(&packet)
    }

    fn marked(&mut self, mark: Ecn, seg: Segment, data: &[u8]) {
        assert_eq!(self.put_marked(mark, seg, data), None);
    }

    pub(super) fn listen_for(&mut self, ecn: EcnMode) {
        self.listen_with(mode(ecn));
    }

    /// What leaves now, with its codepoint.
    fn out_marked(&mut self) -> Vec<(Ecn, Flags, Vec<u8>)> {
        let packets = self.net.emit();
        packets
            .iter()
            .filter_map(|p| read(p).map(|seen| (mark_of(p), seen.seg.flags, seen.data)))
            .collect()
    }

    fn listen_with(&mut self, options: ConnOptions) {
        let local = Endpoint::new(Addr::ANY_V6, PORT);
        let spec =
            ListenSpec { table: Table(0), local, v6_only: false, backlog: 8, token: 7, options };
        self.listener = Some(self.net.stack.listen(spec).unwrap());
    }

    /// A peer connects with these bits in its SYN, and `ace` in its ACK; the flags of our SYN-ACK.
    fn served(config: Config, ecn: EcnMode, syn: u8, ace: u8, opts: TcpOptions) -> (Bench, Seen) {
        let mut b = Bench::new(config);
        b.listen_with(mode(ecn));
        b.stamps = opts.ts;
        let syn = Segment { opts, ..b.segment(SYN | Flags::of_ace(syn), 0, 0, 60_000) };
        assert_eq!(b.put(syn, &[]), None);
        let packets = b.net.emit();
        assert_eq!(mark_of(&packets[0]), Ecn::NotEct, "RFC 3168 6.1.1: no SYN-ACK can be marked");
        let answer = read(&packets[0]).unwrap();
        b.iss = answer.seg.seq;
        if let (Some((val, _)), Some((ours, _))) = (b.stamps, answer.seg.opts.ts) {
            b.stamps = Some((val, ours));
        }
        assert_eq!(b.inject(ACK | Flags::of_ace(ace), 1, 1, 60_000, &[]), None);
        b.silent();
        b.conn = b.net.stack.accept(b.listener.unwrap());
        (b, answer)
    }

    /// We connect with `ecn`, and are answered with these bits; the bits of our SYN, and of our
    /// ACK.
    fn asking(ecn: EcnMode, answer: u8, mark: Ecn, option: Option<AccEcn>) -> (Bench, u8, u8) {
        Bench::asking_with(mode(ecn), answer, mark, option)
    }

    fn asking_with(
        options: ConnOptions,
        answer: u8,
        mark: Ecn,
        option: Option<AccEcn>,
    ) -> (Bench, u8, u8) {
        let mut b = Bench::new(plain());
        b.connect(options);
        let (syn_mark, syn, _) = b.out_marked().remove(0);
        assert_eq!(syn_mark, Ecn::NotEct);
        b.iss = b.net.stack.tcp.owned(b.id()).unwrap().iss;
        let opts = TcpOptions {
            mss: Some(1000),
            sack_permitted: true,
            acc_ecn: option,
            ..TcpOptions::NONE
        };
        let seg = Segment { opts, ..b.segment(SYN | ACK | Flags::of_ace(answer), 0, 1, 60_000) };
        b.marked(mark, seg, &[]);
        let ack = b.one();
        (b, syn.ace(), ack.seg.flags.ace())
    }

    fn feedback(&self) -> EcnFeedback {
        self.info().ecn.feedback
    }
}

#[test]
fn a_server_with_rfc_3168_echoes_marks_until_it_hears_that_the_window_was_cut() {
    let (mut b, answer) = Bench::served(plain(), EcnMode::Accept, 0b011, 0, TcpOptions::NONE);
    assert_eq!(answer.flags(), SYN | ACK | ECE);
    assert_eq!(b.feedback(), EcnFeedback::Classic);
    b.send(b"answer");
    assert_eq!(b.out_marked(), [(Ecn::Ect0, ACK | PSH, b"answer".to_vec())], "data may be marked");
    b.marked(Ecn::Ce, b.segment(ACK, 1, 7, 60_000), &[1; 10]);
    assert_eq!(b.out_marked(), [(Ecn::NotEct, ACK | ECE, vec![])], "a pure ACK may not");
    b.marked(Ecn::Ect0, b.segment(ACK, 11, 7, 60_000), &[1; 10]);
    b.send(b"x");
    assert_eq!(
        b.out_marked(),
        [(Ecn::Ect0, ACK | PSH | ECE, b"x".to_vec())],
        "every segment says so"
    );
    b.marked(Ecn::Ect0, b.segment(ACK | CWR, 21, 8, 60_000), &[1; 10]);
    assert_eq!(b.out_marked(), [(Ecn::NotEct, ACK, vec![])], "and at once that it was heard");
    assert_eq!(
        (b.info().ecn.received_ce, b.counters().ce_segs_in, b.counters().ecn_classic),
        (1, 1, 1)
    );
}

#[test]
fn a_client_with_rfc_3168_cuts_its_window_once_a_round_trip_and_says_so_once() {
    let (mut b, syn, ack) = Bench::asking(EcnMode::On, 0b001, Ecn::NotEct, None);
    assert_eq!((syn, ack, b.feedback()), (0b011, 0, EcnFeedback::Classic));
    b.send(&pattern(20_000));
    let left = b.out_marked();
    assert!(
        left.len() == 10
            && left
                .iter()
                .all(|(mark, flags, _)| *mark == Ecn::Ect0 && !flags.intersects(CWR | ECE))
    );
    let before = b.info().cwnd;
    assert_eq!(b.inject(ACK | ECE, 1, 1001, 60_000, &[]), None);
    let after = b.info().cwnd;
    assert_eq!(after, before * 17 / 20, "RFC 8511: 0.85 for CUBIC");
    assert_eq!(b.inject(ACK | ECE, 1, 9001, 60_000, &[]), None);
    assert_eq!(b.info().cwnd, after, "of the same window, and it does not grow either");
    let left = b.out_marked();
    assert!(left.len() > 3, "{left:?}");
    for (n, (mark, flags, _)) in left.iter().enumerate() {
        assert_eq!((*mark, flags.contains(CWR)), (Ecn::Ect0, n == 0));
    }
    assert_eq!((b.counters().ecn_reductions, b.counters().fast_recoveries), (1, 0));
    // What was sent after the cut tells of a new one.
    let nxt = 10_001 + 1000 * left.len() as u32;
    assert_eq!(b.inject(ACK | ECE, 1, nxt, 60_000, &[]), None);
    assert!(b.info().cwnd < after);
    assert_eq!((b.counters().ecn_reductions, b.info().ecn.delivered_ce), (2, 3));
}

#[test]
fn what_is_sent_again_cannot_be_marked_and_a_lost_syn_asks_no_more() {
    let mut b = Bench::new(plain());
    b.connect(mode(EcnMode::On));
    assert_eq!(b.one().flags(), SYN | ECE | CWR);
    let again = b.pass(ms(1100));
    assert_eq!(again[0].1.flags(), SYN);
    b.iss = again[0].1.seg.seq;
    // The answer is to the first one: what the peer marks is echoed, and nothing of ours can be
    // marked (RFC 3168 6.1.1.1).
    let opts = TcpOptions { mss: Some(1000), ..TcpOptions::NONE };
    assert_eq!(b.put(Segment { opts, ..b.segment(SYN | ACK | ECE, 0, 1, 60_000) }, &[]), None);
    b.out();
    assert!(!b.info().ecn.capable);
    b.send(b"1");
    assert_eq!(b.out_marked()[0].0, Ecn::NotEct);

    let (mut b, _, _) = Bench::asking(EcnMode::On, 0b001, Ecn::NotEct, None);
    b.send(&pattern(1000));
    assert_eq!(b.out_marked()[0].0, Ecn::Ect0);
    b.net.now += secs(2);
    b.net.stack.expire(b.net.now);
    let again = b.out_marked();
    assert_eq!(again.iter().map(|(mark, ..)| *mark).collect::<Vec<_>>(), [Ecn::NotEct]);
    assert_eq!(b.counters().retransmitted_segs, 1);
}

#[test]
fn nobody_who_does_not_ask_or_accept_uses_ecn() {
    for (ecn, syn) in [(EcnMode::Off, 0b011), (EcnMode::Off, 0b111), (EcnMode::Accurate, 0)] {
        let (mut b, answer) = Bench::served(plain(), ecn, syn, 0, TcpOptions::NONE);
        assert_eq!((answer.flags(), b.feedback()), (SYN | ACK, EcnFeedback::None));
        b.marked(Ecn::Ce, b.segment(ACK | ECE, 1, 1, 60_000), b"x");
        b.send(b"answer");
        assert_eq!(b.out_marked(), [(Ecn::NotEct, ACK | PSH, b"answer".to_vec())]);
        assert_eq!(b.info().ecn, EcnInfo::default());
    }
    for (ecn, syn) in [(EcnMode::Off, 0), (EcnMode::Accept, 0), (EcnMode::AcceptAccurate, 0)] {
        let (b, asked, ack) = Bench::asking(ecn, 0b001, Ecn::NotEct, None);
        assert_eq!((asked, ack, b.feedback()), (syn, 0, EcnFeedback::None));
    }
}

#[test]
fn an_accurate_server_reflects_the_syn_counts_marks_and_tells_bytes() {
    let opts = TcpOptions { mss: Some(1000), sack_permitted: true, ..TcpOptions::NONE };
    let (mut b, answer) = Bench::served(plain(), EcnMode::AcceptAccurate, 0b111, 0b010, opts);
    assert_eq!(
        (answer.seg.flags.ace(), answer.seg.opts.acc_ecn),
        (0b010, Some(AccEcn::new(false, [1, 0, 1], 3)))
    );
    assert_eq!((b.feedback(), b.counters().ecn_accurate), (EcnFeedback::Accurate, 1));
    // Its client has options too.
    let opts = TcpOptions { acc_ecn: Some(AccEcn::new(false, [1, 0, 1], 3)), ..TcpOptions::NONE };
    b.marked(
        Ecn::Ect0,
        Segment { opts, ..b.segment(ACK | Flags::of_ace(5), 1, 1, 60_000) },
        &[1; 100],
    );
    b.out();
    b.marked(Ecn::Ce, b.segment(ACK | Flags::of_ace(5), 101, 1, 60_000), &[1; 50]);
    let seen = b.one();
    assert_eq!(
        (seen.seg.flags.ace(), seen.seg.opts.acc_ecn),
        (6, Some(AccEcn::new(false, [101, 50, 1], 3)))
    );
    let told = b.info().ecn;
    assert_eq!((told.received_ce, told.received_bytes, told.options_seen), (1, [100, 50, 0], true));
    // Pure ACKs may be marked too.
    b.marked(Ecn::Ect1, b.segment(ACK | Flags::of_ace(5), 151, 1, 60_000), &[1; 10]);
    assert_eq!(
        b.one().seg.opts.acc_ecn,
        Some(AccEcn::new(true, [101, 50, 11], 3)),
        "what has changed last stands first"
    );
    b.send(b"x");
    assert_eq!(b.out_marked()[0].0, Ecn::Ect0);
}

#[test]
fn an_accurate_client_tells_how_the_syn_ack_was_marked() {
    for (mark, ace, counter) in
        [(Ecn::NotEct, 0b010, 5), (Ecn::Ect1, 0b011, 5), (Ecn::Ect0, 0b100, 5), (Ecn::Ce, 0b110, 6)]
    {
        let (mut b, syn, ack) = Bench::asking(EcnMode::Accurate, 0b010, mark, None);
        assert_eq!((syn, ack, b.feedback()), (0b111, ace, EcnFeedback::Accurate));
        b.send(b"1");
        let (codepoint, flags, _) = b.out_marked().remove(0);
        assert_eq!((codepoint, flags.ace()), (Ecn::Ect0, counter));
    }
    let (b, _, ack) = Bench::asking(EcnMode::Accurate, 0b001, Ecn::NotEct, None);
    assert_eq!((ack, b.feedback()), (0, EcnFeedback::Classic), "a peer that knows RFC 3168 only");
    for broken in [0b000, 0b111] {
        let (b, _, ack) = Bench::asking(EcnMode::Accurate, broken, Ecn::NotEct, None);
        assert_eq!((ack, b.feedback()), (0, EcnFeedback::None));
    }
    let (b, _, _) = Bench::asking(EcnMode::Accurate, 0b100, Ecn::NotEct, None);
    assert!(!b.info().ecn.capable, "our SYN was changed on the way (RFC 9768 3.2.2.3)");
}

#[test]
fn the_option_leaves_room_for_itself_beside_other_options() {
    let opts =
        TcpOptions { mss: Some(1460), sack_permitted: true, ts: Some((5, 0)), ..TcpOptions::NONE };
    let (mut b, _) = Bench::served(config(), EcnMode::Accurate, 0b111, 0b010, opts);
    let told = TcpOptions {
        acc_ecn: Some(AccEcn::new(false, [1, 0, 1], 3)),
        ts: b.stamps,
        ..TcpOptions::NONE
    };
    b.marked(
        Ecn::Ect0,
        Segment { opts: told, ..b.segment(ACK | Flags::of_ace(5), 1, 1, 60_000) },
        &[1; 100],
    );
    b.send(&pattern(4000));
    let left: Vec<Seen> = b.net.emit().iter().filter_map(|p| read(p)).collect();
    assert_eq!(left[0].seg.opts.acc_ecn, Some(AccEcn::new(false, [101, 0, 1], 3)));
    let sizes: Vec<usize> =
        left.iter().map(|s| s.data.len() + usize::from(s.seg.header_len)).collect();
    assert_eq!(&sizes[..2], &[1480, 1480], "full segments, with the option or without");
    // Early segments: blocks come first, and the counters that fit.
    for (n, blocks, counters) in [(1u32, 1, 3), (2, 2, 2), (3, 3, 0)] {
        b.marked(
            Ecn::Ect0,
            b.segment(ACK | Flags::of_ace(5), 101 + 2000 * n, 1, 60_000),
            &[1; 100],
        );
        let seen: Vec<Seen> =
            b.net.emit().iter().filter_map(|p| read(p)).filter(|s| s.data.is_empty()).collect();
        let opts = seen.last().expect("an ACK").seg.opts;
        assert_eq!((opts.sack.len(), opts.acc_ecn.map_or(0, |a| a.count())), (blocks, counters));
    }
}

#[test]
fn cookies_bring_ecn_back() {
    for (ecn, syn, ace, agreed) in [
        (EcnMode::Accept, 0b011, 0, EcnFeedback::Classic),
        (EcnMode::AcceptAccurate, 0b111, 0b010, EcnFeedback::Accurate),
        (EcnMode::AcceptAccurate, 0b011, 0b001, EcnFeedback::Classic),
        (EcnMode::AcceptAccurate, 0, 0b010, EcnFeedback::None),
    ] {
        for stamps in [true, false] {
            let mut config = config();
            config.limits.half_open = 0;
            let ts = stamps.then_some((9, 0));
            let opts = TcpOptions { mss: Some(1000), ts, ..TcpOptions::NONE };
            let (b, answer) = Bench::served(config, ecn, syn, ace, opts);
            assert_eq!(b.counters().syn_cookies_accepted, 1);
            // Without timestamps there is nowhere to keep it, and the SYN-ACK does not say yes.
            let agreed = if stamps { agreed } else { EcnFeedback::None };
            assert_eq!(
                (b.feedback(), answer.seg.flags.ace() != 0),
                (agreed, agreed != EcnFeedback::None)
            );
        }
    }
}

/// Two stacks, and a link that changes packets.
fn world(ecn: EcnMode, offloads: Offloads, sack: bool, change: Change) -> (World, ConnId, ConnId) {
    let mut config = config();
    config.tcp.sack = sack;
    let mut w = World::new(config, offloads, ms(5));
    w.change = change;
    let (a, b) = w.connect(mode(ecn));
    (w, a, b)
}

/// Marks one of so many that can be marked; how many data bytes and packets of each end were.
fn marker(one_of: u64, counts: &Rc<std::cell::Cell<[[u32; 2]; 2]>>) -> Change {
    let mut rng = clearway_base::Rng::seed(one_of);
    let counts = counts.clone();
    std::boxed::Box::new(move |from, packet| {
        if mark_of(packet) != Ecn::NotEct && rng.below(one_of) == 0 {
            set_mark(packet, Ecn::Ce);
            let mut all = counts.get();
            all[from][0] += 1;
            all[from][1] += read(packet).map_or(0, |seen| seen.data.len() as u32);
            counts.set(all);
        }
    })
}

#[test]
fn each_mark_of_a_transfer_is_known_to_both_ends() {
    for one_of in [2, 7, 40] {
        for loss in [false, true] {
            let counts = Rc::new(std::cell::Cell::new([[0; 2]; 2]));
            let (mut w, a, b) = world(
                EcnMode::Accurate,
                Offloads::default(),
                true,
                std::boxed::Box::new(|_, _| ()),
            );
            // Three marks before the first answer would look like a way that clears the field (RFC
            // 9768 3.2.2.4).
            assert_eq!(w.transfer(0, a, b, b"first", secs(60)), b"first");
            assert_eq!(w.transfer(1, b, a, b"first", secs(60)), b"first");
            w.change = marker(one_of, &counts);
            let mut rng = clearway_base::Rng::seed(3);
            w.lose = std::boxed::Box::new(move |_, _, _| loss && rng.below(40) == 0);
            let data = pattern(600_000);
            assert_eq!(w.transfer(0, a, b, &data, secs(900)), data);
            w.lose = std::boxed::Box::new(|_, _, _| false);
            w.change = std::boxed::Box::new(|_, _| ());
            assert_eq!(w.transfer(1, b, a, &pattern(30_000), secs(60)), pattern(30_000));
            assert_eq!(w.transfer(0, a, b, b"end", secs(60)), b"end");
            w.run(secs(2));
            let [near, far] =
                [(0, a), (1, b)].map(|(end, id)| w.ends[end].stack.info(id).unwrap().ecn);
            assert_eq!(near.feedback, EcnFeedback::Accurate);
            // Where losses leave it open how often the counter came round, the worst is taken: some
            // eights too many, and none too few.
            let more = |told: u32, true_number: u32| {
                told.checked_sub(true_number).is_some_and(|more| more % 8 == 0)
            };
            assert!(more(near.delivered_ce, far.received_ce), "one of {one_of}: {near:?} {far:?}");
            assert!(more(far.delivered_ce, near.received_ce), "one of {one_of}: {near:?} {far:?}");
            assert_eq!(near.delivered_bytes, far.received_bytes);
            assert_eq!(far.delivered_bytes, near.received_bytes);
            let marked = counts.get();
            if !loss {
                assert_eq!(
                    (near.delivered_ce, near.delivered_bytes[1]),
                    (marked[0][0], marked[0][1])
                );
                assert_eq!(far.delivered_ce, marked[1][0]);
                assert_eq!(w.ends[0].stack.counters().tcp.retransmitted_segs, 0);
            }
            assert!(w.ends[0].stack.counters().tcp.ecn_reductions > 0);
        }
    }
}

#[test]
fn marks_slow_a_transfer_down_as_losses_would_and_nothing_is_lost() {
    for ecn in [EcnMode::On, EcnMode::Accurate] {
        for offloads in [Offloads::default(), cutting()] {
            let counts = Rc::new(std::cell::Cell::new([[0; 2]; 2]));
            let (mut w, a, b) = world(ecn, offloads, true, marker(60, &counts));
            let data = pattern(2 << 20);
            assert!(w.transfer(0, a, b, &data, secs(900)) == data);
            let tcp = w.ends[0].stack.counters().tcp;
            assert_eq!(tcp.retransmitted_segs, 0);
            assert!(tcp.ecn_reductions > 0, "{tcp:?}");
            assert!(w.ends[0].stack.info(a).unwrap().ssthresh < 1 << 20);
        }
    }
}

#[test]
fn whatever_the_way_does_to_ecn_the_bytes_arrive() {
    let clears: fn(usize, &mut Vec<u8>) = |_, packet| set_mark(packet, Ecn::NotEct);
    let floods: fn(usize, &mut Vec<u8>) = |_, packet| set_mark(packet, Ecn::Ce);
    let swaps: fn(usize, &mut Vec<u8>) = |_, packet| {
        let other = match mark_of(packet) {
            Ecn::Ect0 => Ecn::Ect1,
            Ecn::Ect1 => Ecn::Ect0,
            mark => mark,
        };
        set_mark(packet, other);
    };
    let zeroes: fn(usize, &mut Vec<u8>) = |_, packet| flags(packet, |_| 0);
    let turns: fn(usize, &mut Vec<u8>) = |_, packet| flags(packet, |ace| !ace);
    let ones: fn(usize, &mut Vec<u8>) = |_, packet| flags(packet, |_| 7);
    for ecn in EcnMode::ALL {
        for (name, change) in [
            ("clears", clears),
            ("floods", floods),
            ("swaps", swaps),
            ("zeroes", zeroes),
            ("turns", turns),
            ("ones", ones),
        ] {
            let (mut w, a, b) =
                world(ecn, Offloads::default(), ecn != EcnMode::On, std::boxed::Box::new(change));
            let data = pattern(50_000);
            assert!(w.transfer(0, a, b, &data, secs(900)) == data, "{ecn:?} {name}");
            assert!(w.transfer(1, b, a, &data, secs(900)) == data, "{ecn:?} {name}");
        }
    }
}

/// Changes the three bits of ECN in a segment.
fn flags(packet: &mut [u8], change: impl Fn(u8) -> u8) {
    let Some(seen) = read(packet) else { return };
    let ace = change(seen.seg.flags.ace()) & 7;
    let (head, segment) = packet.split_at_mut(20);
    segment[12] = segment[12] & !1 | ace >> 2;
    segment[13] = segment[13] & 0x3f | ace << 6;
    segment[16..18].fill(0);
    let ends = [12, 16].map(|at| Addr::v4([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    tcp::fill_checksum(&ends[0], &ends[1], segment);
}

#[test]
fn a_stranger_who_guesses_no_number_cuts_no_window() {
    let (mut b, _, _) = Bench::asking(EcnMode::On, 0b001, Ecn::NotEct, None);
    b.send(&pattern(20_000));
    b.out();
    let before = b.info().cwnd;
    for (seq, ack) in [(1, 60_000), (70_000, 500), (1, (u32::MAX - 3) << 28)] {
        b.inject(ACK | ECE, seq, ack, 60_000, &[]);
    }
    assert_eq!((b.info().cwnd, b.counters().ecn_reductions), (before, 0));
    // Who guesses all slows it down by no more than one cut in a round trip.
    for _ in 0..100 {
        b.inject(ACK | ECE, 1, 1, 60_000, &[]);
    }
    assert_eq!(b.counters().ecn_reductions, 1);
}

#[test]
fn prague_asks_for_acc_ecn_and_goes_by_cubic_where_the_peer_does_not_agree() {
    let prague = ConnOptions { congestion: Congestion::Prague, ..mode(EcnMode::Accept) };
    for (answer, kind, mark) in [
        (0b010, Congestion::Prague, Ecn::Ect1),
        (0b001, Congestion::Cubic, Ecn::Ect0),
        (0b000, Congestion::Cubic, Ecn::NotEct),
    ] {
        let (mut b, asked, _) = Bench::asking_with(prague, answer, Ecn::NotEct, None);
        assert_eq!(asked, 0b111);
        assert_eq!(b.info().congestion, kind);
        b.send(b"data");
        assert_eq!(b.out_marked()[0].0, mark, "{kind:?}");
        assert_eq!(b.info().pacing_rate.is_some(), kind == Congestion::Prague);
    }
    let off = ConnOptions { ecn: EcnMode::Off, ..prague };
    let (b, asked, _) = Bench::asking_with(off, 0, Ecn::NotEct, None);
    assert_eq!((asked, b.info().congestion), (0, Congestion::Cubic));
}

#[test]
fn a_connection_can_change_to_prague_and_back_if_marks_are_told_exactly() {
    for (ecn, kind) in [(EcnMode::Accurate, Congestion::Prague), (EcnMode::On, Congestion::Cubic)] {
        let mut w = World::new(config(), Offloads::default(), ms(5));
        let (a, _) = w.connect(mode(ecn));
        let stack = &mut w.ends[0].stack;
        stack.set_options(a, ConnOptions { congestion: Congestion::Prague, ..mode(ecn) });
        assert_eq!(stack.options(a).unwrap().congestion, kind);
        stack.set_options(a, mode(ecn));
        assert_eq!(stack.info(a).unwrap().pacing_rate, None);
    }
}

#[test]
fn marks_of_a_few_packets_take_little_from_prague() {
    let prague = ConnOptions { congestion: Congestion::Prague, ..mode(EcnMode::Accurate) };
    let (mut w, mut count) = (World::new(config(), Offloads::default(), ms(5)), 0);
    let (a, b) = w.connect(prague);
    w.change = std::boxed::Box::new(move |from, packet| {
        count += u32::from(from == 0 && packet.len() > 1000);
        if from == 0 && packet.len() > 1000 && count.is_multiple_of(50) {
            assert_eq!(mark_of(packet), Ecn::Ect1);
            set_mark(packet, Ecn::Ce);
        }
    });
    let data = pattern(4 << 20);
    assert_eq!(w.transfer(0, a, b, &data, secs(60)), data);
    let info = w.ends[0].stack.info(a).unwrap();
    assert!(info.ecn.delivered_ce > 40, "{info:?}");
    // A cut of a hundredth for every fifty segments, and 4/25 of a segment in each round trip of 10
    // ms: some 28 segments. Half of a window at each mark would leave three.
    assert!(info.cwnd > 15 * 1448, "{info:?}");
    assert_eq!(w.ends[0].stack.counters().tcp.fast_recoveries, 0);
}
