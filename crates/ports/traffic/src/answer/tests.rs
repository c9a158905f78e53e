use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_dev::{FramePool, Mac, PairConfig, PairEnd, PoolBudget, Receive, Transmit, pair};
use clearway_pkt::{Buf, Offloads, PoolBuf, TxMeta};
use clearway_wire::{Addr, EtherType, Malformed, Proto, eth};

use super::*;

const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

fn addrs() -> [Addr; 2] {
    ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()]
}

fn ends(offloads: Offloads) -> (PairEnd, PairEnd) {
    let config = PairConfig { offloads, ..PairConfig::default() };
    pair(config, &FramePool::new(PoolBudget::of_bytes(1 << 20)))
}

/// A client's segment goes to the answerer, and what it answers comes back.
fn asks(
    answerer: &mut Answerer,
    offloads: Offloads,
    flags: Flags,
    data: &[u8],
) -> Vec<(Segment, Vec<u8>)> {
    sends(answerer, offloads, &asking(flags), data)
}

fn asking(flags: Flags) -> Segment {
    Segment {
        src_port: 40_000,
        dst_port: 80,
        seq: Seq(1_000),
        ack: Seq(77),
        flags,
        wnd: 100,
        ..Segment::default()
    }
}

/// The same of this segment.
fn sends(
    answerer: &mut Answerer,
    offloads: Offloads,
    segment: &Segment,
    data: &[u8],
) -> Vec<(Segment, Vec<u8>)> {
    let (mut near, mut far) = ends(offloads);
    let header_len = segment.opts.header_len();
    let [src, dst] = addrs();
    let header = ipv4::Header {
        src,
        dst,
        proto: Proto::TCP,
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: (header_len + data.len()) as u16,
    };
    let data_at = 34 + header_len;
    let mut frame = vec![0; data_at + data.len()];
    eth::emit(MACS[1], MACS[0], EtherType::IPV4, &mut frame);
    ipv4::emit(&header, &mut frame[14..]);
    tcp::emit(segment, &mut frame[34..]);
    frame[data_at..].copy_from_slice(data);
    near.reserve(frame.len()).unwrap()[..frame.len()].copy_from_slice(&frame);
    near.commit(frame.len(), TxMeta::default());
    assert!(answerer.turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap());
    let mut burst: Burst<PoolBuf> = Burst::new();
    near.rx(&mut burst).unwrap();
    (0..burst.len()).map(|index| read(burst.take(index).unwrap().0.bytes(), offloads)).collect()
}

fn read(frame: &[u8], offloads: Offloads) -> (Segment, Vec<u8>) {
    let ethernet = eth::check(frame).unwrap();
    assert_eq!((ethernet.dst(), ethernet.src()), (MACS[0], MACS[1]));
    let ip = ipv4::check(ethernet.payload(), true).unwrap();
    assert_eq!([ip.dst(), ip.src()], addrs());
    let checked: Result<(), Malformed> = tcp::verify_checksum(&ip.src(), &ip.dst(), ip.payload());
    assert_eq!(checked.is_ok(), !offloads.tx_checksum, "a device that sums is left to do so");
    let segment = tcp::parse(ip.payload()).unwrap();
    assert_eq!((segment.src_port, segment.dst_port), (80, 40_000));
    (segment, ip.payload()[usize::from(segment.header_len)..].to_vec())
}

fn http(closes: bool) -> Answerer {
    Answerer::new(Requests::Http, b"answer", closes)
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_connection_is_opened_asked_and_ended() {
    let mut answerer = http(false);
    let plain = Offloads::default();
    let opened = asks(&mut answerer, plain, Flags::SYN, b"");
    let [(syn, data)] = &opened[..] else { panic!("{opened:?}") };
    assert_eq!(syn.flags, Flags::SYN | Flags::ACK);
    assert_eq!((syn.seq, syn.ack, data.len()), (ISS, Seq(1_001), 0));
    assert_eq!(syn.opts.mss, Some(1_460));

    let answered = asks(&mut answerer, plain, Flags::ACK | Flags::PSH, GET);
    let [(segment, data)] = &answered[..] else { panic!("{answered:?}") };
    assert_eq!(segment.flags, Flags::ACK | Flags::PSH);
    assert_eq!((segment.seq, segment.ack), (Seq(77), Seq(1_000 + GET.len() as u32)));
    assert_eq!(data, b"answer");

    let ended = asks(&mut answerer, plain, Flags::ACK | Flags::FIN, b"");
    let [(segment, data)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(segment.flags, Flags::ACK | Flags::FIN);
    assert_eq!((segment.ack, data.len()), (Seq(1_001), 0));
    assert_eq!((answerer.counts().frames, answerer.counts().returned), (3, 3));
}

#[test]
fn who_closes_says_so_with_the_answer_and_acknowledges_the_peers_end() {
    let mut answerer = http(true);
    let answered = asks(&mut answerer, Offloads::default(), Flags::ACK, GET);
    assert_eq!(answered[0].0.flags, Flags::ACK | Flags::PSH | Flags::FIN);
    let ended = asks(&mut answerer, Offloads::default(), Flags::ACK | Flags::FIN, b"");
    assert_eq!(ended[0].0.flags, Flags::ACK);
}

#[test]
fn acknowledgements_and_resets_are_not_answered() {
    let mut answerer = http(false);
    for flags in [Flags::ACK, Flags::RST, Flags::RST | Flags::ACK] {
        assert!(asks(&mut answerer, Offloads::default(), flags, b"").is_empty());
    }
    assert_eq!(answerer.counts().unanswered, 3);
}

#[test]
fn each_request_of_a_segment_has_its_answer() {
    let requests = b"*2\r\n$3\r\nGET\r\n$1\r\n*\r\n".repeat(3);
    let mut answerer = Answerer::new(Requests::Redis, b"$-1\r\n", false);
    let answered = asks(&mut answerer, Offloads::default(), Flags::ACK, &requests);
    // The key of these begins a line with the sign that begins a request.
    assert_eq!(answered[0].1, b"$-1\r\n".repeat(6));
    let keyed = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".repeat(16);
    let answered = asks(&mut answerer, Offloads::default(), Flags::ACK, &keyed);
    assert_eq!(answered[0].1, b"$-1\r\n".repeat(16));
    let answered = asks(&mut http(false), Offloads::default(), Flags::ACK, &GET.repeat(2));
    assert_eq!(answered[0].1, b"answeranswer");
}

#[test]
fn a_server_is_asked_once_for_each_burst_with_requests_before_they_are_answered() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let mut answerer = http(false).asking(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    asks(&mut answerer, Offloads::default(), Flags::SYN, b"");
    asks(&mut answerer, Offloads::default(), Flags::ACK, b"half a request");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let answered = asks(&mut answerer, Offloads::default(), Flags::ACK, &GET.repeat(2));
    assert_eq!((asked.load(Ordering::Relaxed), &answered[0].1[..]), (1, &b"answeranswer"[..]));
}

#[test]
fn a_device_that_sums_is_left_to_do_so() {
    let offloads = Offloads { tx_checksum: true, ..Offloads::default() };
    assert_eq!(asks(&mut http(false), offloads, Flags::ACK, GET)[0].1, b"answer");
}

#[test]
fn what_does_not_fit_and_what_is_no_tcp_is_counted() {
    let mut long = Answerer::new(Requests::Http, &[b'x'; 1_000], false);
    assert!(asks(&mut long, Offloads::default(), Flags::ACK, &GET.repeat(2)).is_empty());
    assert_eq!(long.counts().too_long, 1);
    let (mut near, mut far) = ends(Offloads::default());
    for frame in [vec![0xff; 60], vec![1], vec![2; 60]] {
        near.reserve(frame.len()).unwrap()[..frame.len()].copy_from_slice(&frame);
        near.commit(frame.len(), TxMeta::default());
    }
    let mut answerer = http(false);
    assert!(answerer.turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap());
    assert_eq!((answerer.counts().frames, answerer.counts().unanswered), (3, 3));
}

/// 10,000 bytes, each place of which can be told from its neighbours.
fn page() -> Vec<u8> {
    (0..10_000_u32).map(|at| (at % 251) as u8).collect()
}

/// Opens a connection whose client has a window of so many bytes in steps of 16, and the answerer's
/// first number.
fn opened(answerer: &mut Answerer, offloads: Offloads) -> Seq {
    let mut syn = asking(Flags::SYN);
    syn.opts.wscale = Some(4);
    let opened = sends(answerer, offloads, &syn, b"");
    assert_eq!((opened[0].0.opts.wscale, opened[0].0.opts.mss), (Some(0), Some(1_460)));
    Seq(opened[0].0.seq.0 + 1)
}

#[test]
fn long_answers_leave_as_the_window_allows_and_no_small_segment_in_between() {
    let (page, plain) = (page(), Offloads::default());
    let mut answerer = Answerer::new(Requests::Http, &page, false);
    let first = opened(&mut answerer, plain);
    // 6,000 bytes are four segments and a piece that waits.
    let mut segment = Segment { ack: first, wnd: 6_000 / 16, ..asking(Flags::ACK) };
    let answered = sends(&mut answerer, plain, &segment, GET);
    let lens: Vec<usize> = answered.iter().map(|(_, data)| data.len()).collect();
    assert_eq!(lens, [1_460; 4]);
    assert!(answered.iter().all(|(segment, _)| segment.ack == Seq(1_000 + GET.len() as u32)));
    let mut got: Vec<u8> = answered.into_iter().flat_map(|(_, data)| data).collect();
    // What is acknowledged makes room, and the end of an answer is as long as it is.
    segment.seq = Seq(1_000 + GET.len() as u32);
    segment.ack = Seq(first.0 + got.len() as u32);
    let answered = sends(&mut answerer, plain, &segment, b"");
    let lens: Vec<usize> = answered.iter().map(|(_, data)| data.len()).collect();
    assert_eq!(lens, [1_460, 1_460, 1_240]);
    assert_eq!(answered[2].0.flags, Flags::ACK | Flags::PSH);
    assert_eq!(answered[2].0.seq, Seq(first.0 + 5_840 + 2_920));
    got.extend(answered.into_iter().flat_map(|(_, data)| data));
    assert!(got == page);
    // Nothing is left: acknowledgements are not answered, and the client's end is.
    segment.ack = Seq(first.0 + 10_000);
    assert!(sends(&mut answerer, plain, &segment, b"").is_empty());
    segment.flags = Flags::ACK | Flags::FIN;
    let ended = sends(&mut answerer, plain, &segment, b"");
    assert_eq!((ended.len(), ended[0].0.flags), (1, Flags::ACK | Flags::FIN));
    assert!(sends(&mut answerer, plain, &Segment { flags: Flags::ACK, ..segment }, b"").is_empty());
}

#[test]
fn a_device_that_cuts_gets_long_answers_whole_and_who_closes_ends_behind_them() {
    let cuts = Offloads {
        tx_checksum: true,
        tso4: true,
        max_segmented_frame: 65_000,
        ..Offloads::default()
    };
    let page = page();
    let mut answerer = Answerer::new(Requests::Http, &page, true);
    let first = opened(&mut answerer, cuts);
    let segment = Segment { ack: first, wnd: 4_000, ..asking(Flags::ACK) };
    let answered = sends(&mut answerer, cuts, &segment, GET);
    assert_eq!((answered.len(), answered[0].0.flags), (1, Flags::ACK | Flags::PSH | Flags::FIN));
    assert!(answered[0].1 == page);
    // The client's end comes when there is no connection any more, and is acknowledged.
    let fin = Segment { flags: Flags::ACK | Flags::FIN, ..segment };
    assert_eq!(sends(&mut answerer, cuts, &fin, b"")[0].0.flags, Flags::ACK);
    let reset = Segment { flags: Flags::RST, ..segment };
    assert!(sends(&mut answerer, cuts, &reset, b"").is_empty());
}

#[test]
fn several_long_answers_follow_each_other() {
    let (page, plain) = (page(), Offloads::default());
    let mut answerer = Answerer::new(Requests::Http, &page, false);
    let first = opened(&mut answerer, plain);
    let segment = Segment { ack: first, wnd: 4_000, ..asking(Flags::ACK) };
    let answered = sends(&mut answerer, plain, &segment, &GET.repeat(2));
    let got: Vec<u8> = answered.into_iter().flat_map(|(_, data)| data).collect();
    assert!(got == page.repeat(2));
}
