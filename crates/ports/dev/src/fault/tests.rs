use clearway_pkt::BURST;
use clearway_wire::{Addr, Ecn, Flags, Proto, ipv4, tcp};

use super::*;
use crate::pair::{PairConfig, PairEnd, pair};
use crate::test_frames::{addresses, pattern, tcp_frame};
use crate::{Loopback, PoolBudget};

fn spec(text: &str) -> FaultSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn faults_are_written_in_words_that_are_read_as_the_same_again() {
    for text in [
        "loss=0.1%",
        "loss=2%,reorder=5%,rx.delay=10ms,tx.jitter=2us,tx.jitter-shape=normal",
        "rate=100M,limit=30",
        "rx.loss=1%,tx.corrupt=0.0001%,dup=3%,mark=4%,jitter=1ms,jitter-order=free",
    ] {
        assert_eq!(spec(&spec(text).to_string()), spec(text), "{text}: {}", spec(text));
    }
}

fn pool() -> FramePool {
    FramePool::new(PoolBudget {
        small_count: 2000,
        small_len: 2048,
        large_count: 4,
        large_len: 66_000,
    })
}

/// A good end, and one behind a bad link.
fn bad_link(text: &str) -> (PairEnd, Fault<PairEnd>) {
    let pool = pool();
    let offloads = Offloads {
        tso4: true,
        tx_checksum: true,
        max_segmented_frame: 65_549,
        ..Offloads::default()
    };
    let (a, b) = pair(PairConfig { offloads, limit: 1500, ..PairConfig::default() }, &pool);
    (a, Fault::new(b, spec(text), 1, pool))
}

fn send(dev: &mut impl Dev, frame: &[u8], meta: TxMeta) {
    dev.reserve(frame.len()).unwrap()[..frame.len()].copy_from_slice(frame);
    dev.commit(frame.len(), meta);
    dev.flush();
}

fn receive(dev: &mut impl Dev<Buf = PoolBuf>) -> Vec<(Vec<u8>, RxMeta)> {
    let mut got = Vec::new();
    let mut burst = Burst::new();
    loop {
        dev.rx(&mut burst).unwrap();
        if burst.is_empty() {
            return got;
        }
        got.extend(
            (0..burst.len())
                .map(|i| burst.take(i).map(|(buf, meta)| (buf.bytes().to_vec(), meta)).unwrap()),
        );
        burst.clear();
    }
}

#[test]
fn words_are_read_for_one_direction_or_both() {
    let faults = spec(
        "loss=2%,reorder=5%,dup=1%,corrupt=0.1%,mark=3%,rx.delay=1.5ms,rate=100M,limit=100,tx.loss=100%",
    );
    assert_eq!((faults.rx.loss_ppm, faults.tx.loss_ppm), (20_000, 1_000_000));
    assert_eq!(
        (faults.rx.reorder_ppm, faults.rx.dup_ppm, faults.tx.corrupt_ppm),
        (50_000, 10_000, 1_000)
    );
    assert_eq!((faults.rx.mark_ppm, faults.tx.mark_ppm), (30_000, 30_000));
    assert_eq!((faults.rx.delay.as_micros(), faults.tx.delay.as_micros()), (1_500, 0));
    assert_eq!((faults.tx.rate_bps, faults.tx.limit), (100_000_000, 100));
    assert_eq!(spec(""), FaultSpec::default());
    let jitter = spec("jitter=2ms,tx.jitter-shape=normal,rx.jitter-order=free");
    assert_eq!(
        (jitter.rx.jitter.as_micros(), jitter.rx.shape, jitter.rx.overtakes),
        (2_000, JitterShape::Uniform, true)
    );
    assert_eq!((jitter.tx.shape, jitter.tx.overtakes), (JitterShape::Normal, false));
    for one in [jitter.rx, jitter.tx] {
        assert_eq!(spec(&one.to_string()).rx, one);
    }
    let again = spec(&faults.rx.to_string());
    assert_eq!((again.rx, again.tx), (faults.rx, faults.rx));
}

#[test]
fn only_what_can_be_marked_is_marked_and_its_checksum_stays_right() {
    for ethernet in [false, true] {
        for before in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let mut v4 = vec![0; 28];
            let (src, dst) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
            let header = ipv4::Header {
                src,
                dst,
                proto: Proto::UDP,
                tos: 0x10 | before as u8,
                ttl: 64,
                id: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                payload_len: 8,
            };
            ipv4::emit(&header, &mut v4);
            let mut v6 = vec![0; 48];
            (v6[0], v6[1]) = (0x60, (before as u8) << 4);
            let after = if before == Ecn::NotEct { before } else { Ecn::Ce };
            for (packet, at) in [(v4, 0), (v6, 4)] {
                let front = if ethernet { 14 } else { 0 };
                let mut frame = vec![0; front];
                frame.extend(packet);
                mark(&mut frame, ethernet);
                assert_eq!(Ecn::of(frame[front + 1] >> at), after);
                if at == 0 {
                    let ip = ipv4::check(&frame[front..], true).expect("a good checksum");
                    assert_eq!(ip.tos() & !3, 0x10);
                }
            }
        }
    }
    for len in 0..20 {
        mark(&mut vec![0x45; len], false);
        mark(&mut vec![0x6f; len], true);
    }
}

#[test]
fn errors_point_at_the_word() {
    for (text, word) in [
        ("los=2%", "los"),
        ("loss=2", "2"),
        ("loss=101%", "101%"),
        ("loss=-1%", "-1%"),
        ("dup", "dup"),
        ("loss=1%,delay=10", "10"),
        ("delay=2h", "2h"),
        ("delay=61s", "61s"),
        ("rate=10X", "10X"),
        ("rate=0", "0"),
        ("limit=0", "0"),
        ("rx.tx.loss=1%", "rx.tx.loss"),
        ("loss=1%,", ""),
        ("delay=1.2.3ms", "1.2.3ms"),
        ("rate=99999999999999999999", "99999999999999999999"),
    ] {
        let error = text.parse::<FaultSpec>().unwrap_err();
        assert_eq!(&text[error.at()], word, "{text}: {error}");
    }
}

#[test]
fn without_faults_everything_passes_unchanged() {
    let (mut a, mut b) = bad_link("");
    for n in 0..100u8 {
        send(&mut a, &[n; 60], TxMeta::default());
        send(&mut b, &[n; 70], TxMeta::default());
    }
    let at_b: Vec<_> = receive(&mut b).into_iter().map(|(frame, _)| frame).collect();
    assert_eq!(at_b, (0..100u8).map(|n| vec![n; 60]).collect::<Vec<_>>());
    assert_eq!(receive(&mut a).len(), 100);
    assert_eq!(b.counters().rx_dropped_total() + b.counters().tx_dropped_total(), 0);
}

#[test]
fn every_frame_is_lost_or_arrives_and_both_are_counted() {
    let (mut a, mut b) = bad_link("loss=10%");
    for _ in 0..1000 {
        send(&mut a, &[1; 60], TxMeta::default());
        send(&mut b, &[1; 60], TxMeta::default());
    }
    let (at_a, at_b) = (receive(&mut a).len() as u64, receive(&mut b).len() as u64);
    let counters = b.counters();
    assert_eq!(at_b + counters.rx_dropped(RxDrop::FaultLoss), 1000);
    assert_eq!(at_a + counters.tx_dropped(TxDrop::FaultLoss), 1000);
    assert!((850..950).contains(&at_a) && (850..950).contains(&at_b), "{at_a} {at_b}");
}

#[test]
fn a_delayed_frame_is_announced_and_comes_when_it_is_due() {
    let (mut a, mut b) = bad_link("delay=10ms");
    let at = |ms| Instant::from_millis(ms);
    b.set_now(at(100));
    send(&mut a, &[1; 60], TxMeta::default());
    send(&mut b, &[2; 60], TxMeta::default());
    assert!(receive(&mut b).is_empty() && receive(&mut a).is_empty());
    assert_eq!(b.next_deadline(), at(110));
    b.set_now(at(109));
    b.flush();
    assert!(receive(&mut b).is_empty() && receive(&mut a).is_empty());
    b.set_now(at(110));
    b.flush();
    assert_eq!((receive(&mut b).len(), receive(&mut a).len()), (1, 1));
    assert_eq!(b.next_deadline(), Instant::NEVER);
}

/// A stack that is behind with what has arrived does not make the link longer: frames are on their
/// way from when they come to it.
#[test]
fn a_frame_is_on_its_way_also_while_others_wait_to_be_read() {
    let (mut a, mut b) = bad_link("delay=10ms");
    let at = |ms| Instant::from_millis(ms);
    let mut burst = Burst::new();
    b.set_now(at(100));
    for _ in 0..4 {
        burst.clear();
        (0..BURST).for_each(|_| send(&mut a, &[1; 60], TxMeta::default()));
        b.rx(&mut burst).unwrap();
        assert_eq!((burst.len(), burst.may_have_more()), (0, true));
    }
    burst.clear();
    // All of them are due, and one burst of them is read while one more frame comes.
    b.set_now(at(110));
    send(&mut a, &[2; 60], TxMeta::default());
    b.rx(&mut burst).unwrap();
    assert_eq!((burst.len(), burst.may_have_more()), (BURST, true));
    b.set_now(at(119));
    assert_eq!(receive(&mut b).len(), 3 * BURST);
    assert_eq!(b.next_deadline(), at(120));
    b.set_now(at(120));
    assert_eq!(receive(&mut b).len(), 1);
}

/// What is read and what is written take turns: else a thousand frames would leave before one that
/// came back for the first of them is looked at.
#[test]
fn no_more_is_written_at_a_time_than_is_read() {
    let (mut a, mut b) = bad_link("delay=10ms");
    let at = |ms| Instant::from_millis(ms);
    b.set_now(at(100));
    (0..2 * BURST + 5).for_each(|_| send(&mut b, &[1; 60], TxMeta::default()));
    assert!(receive(&mut a).is_empty());
    for expected in [BURST, BURST, 5] {
        b.set_now(at(110));
        assert_eq!(b.next_deadline(), at(110), "more is due");
        b.flush();
        assert_eq!(receive(&mut a).len(), expected);
    }
    assert_eq!(b.next_deadline(), Instant::NEVER);
}

#[test]
fn a_large_packet_from_below_is_cut_before_anything_happens_to_it() {
    let (mut a, mut b) = bad_link("loss=20%");
    let payload = pattern(40_000);
    let frame = tcp_frame(true, true, Flags::ACK, &payload);
    let meta = TxMeta {
        checksum_start: 34,
        checksum_offset: 16,
        segmentation: Segmentation::Tcp(1000),
        ..TxMeta::default()
    };
    send(&mut a, &frame, meta);
    let got = receive(&mut b);
    assert_eq!(got.len() as u64 + b.counters().rx_dropped(RxDrop::FaultLoss), 40);
    assert!((20..40).contains(&got.len()));
    let (src, dst) = addresses(true);
    for (frame, meta) in got {
        assert_eq!((frame.len(), meta.segment_size), (66 + 1000, 0));
        let ip = ipv4::check(&frame[14..], true).unwrap();
        tcp::verify_checksum(&src, &dst, ip.payload()).unwrap();
    }
}

#[test]
fn a_damaged_frame_can_be_found_out_even_when_its_checksum_was_never_made() {
    let (mut a, mut b) = bad_link("corrupt=100%");
    let frame = tcp_frame(true, true, Flags::ACK, b"some data");
    let meta = TxMeta { checksum_start: 34, checksum_offset: 16, ..TxMeta::default() };
    let (src, dst) = addresses(true);
    for _ in 0..500 {
        send(&mut a, &frame, meta);
        // A frame whose checksum was good, and that differs from it in one bit.
        let mut whole = frame.clone();
        finish_checksum(&mut whole, &meta);
        let (got, meta) = receive(&mut b).pop().unwrap();
        assert_eq!(meta.checksum, Checksum::Unknown);
        let turned: u32 = got.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(turned, 1);
        let harmed_at = got.iter().zip(&whole).position(|(a, b)| a != b).unwrap();
        if harmed_at >= 34 {
            assert!(tcp::verify_checksum(&src, &dst, &got[34..]).is_err());
        }
    }
}

#[test]
fn segmentation_over_a_bad_link_loses_single_segments() {
    let (mut a, b) = bad_link("tx.loss=20%,tx.reorder=10%");
    let mut b: Box<dyn Dev<Buf = PoolBuf>> = Box::new(crate::Gso::new(b));
    let frame = tcp_frame(true, true, Flags::ACK, &pattern(40_000));
    let segmentation = Segmentation::Tcp(1000);
    send(
        &mut b,
        &frame,
        TxMeta {
            checksum_start: 34,
            checksum_offset: 16,
            segmentation,
            header_len: 66,
            flow_hash: 0,
        },
    );
    b.set_now(Instant::from_millis(10));
    b.flush();
    let got = receive(&mut a);
    assert_eq!(got.len() as u64 + b.counters().tx_dropped(TxDrop::FaultLoss), 40);
    assert!((20..40).contains(&got.len()));
    let (src, dst) = addresses(true);
    assert!(got.iter().all(|(frame, _)| tcp::verify_checksum(&src, &dst, &frame[34..]).is_ok()));
}

#[test]
fn a_trusted_link_is_trusted_no_more() {
    let pool = pool();
    let mut dev = Fault::new(Loopback::new(pool.clone()), spec("corrupt=1%"), 1, pool);
    assert_eq!(dev.offloads(), Offloads::default());
    send(&mut dev, &[0x45; 40], TxMeta::default());
    assert_eq!(receive(&mut dev).pop().unwrap().1.checksum, Checksum::Unknown);
}

#[test]
fn all_buffers_come_back() {
    let pool = pool();
    let (a, b) = pair(PairConfig::default(), &pool);
    let (mut a, mut b) =
        (a, Fault::new(b, spec("dup=50%,reorder=20%,loss=10%,rate=1M,limit=20"), 3, pool.clone()));
    for ms in 0..500 {
        b.set_now(Instant::from_millis(ms));
        send(&mut a, &[1; 1000], TxMeta::default());
        send(&mut b, &[1; 1000], TxMeta::default());
        receive(&mut b);
        receive(&mut a);
    }
    let counters = b.counters();
    assert!(
        counters.rx_dropped(RxDrop::FaultQueue) > 100
            && counters.tx_dropped(TxDrop::FaultQueue) > 100
    );
    drop((a, b));
    assert_eq!((pool.small().available(), pool.large().available()), (2000, 4));
}

/// A loopback with a bad wire, and how often it lost a segment when so many large packets crossed
/// it.
fn bad_loopback(text: &str) -> Fault<Loopback> {
    let pool = FramePool::new(PoolBudget {
        small_count: 500,
        small_len: 2048,
        large_count: 8,
        large_len: 66_000,
    });
    Fault::on_loopback(Loopback::with_mtu(pool.clone(), 1500), spec(text).rx, 1, pool)
}

const MSS: u16 = 1_448;

/// A packet of 40 segments as the stack hands it to a loopback: its checksum is never made.
fn large() -> (Vec<u8>, TxMeta) {
    let frame = tcp_frame(true, false, Flags::ACK, &pattern(40 * usize::from(MSS)));
    (frame, TxMeta { segmentation: Segmentation::Tcp(MSS), ..TxMeta::default() })
}

#[test]
fn on_a_loopback_large_packets_are_taken_and_faults_meet_single_segments_once() {
    let mut dev = bad_loopback("loss=10%");
    assert!(dev.offloads().trusted_link && dev.offloads().tso4);
    let (frame, meta) = large();
    let (mut got, mut segments) = (0, 0);
    for _ in 0..100 {
        send(&mut dev, &frame, meta);
        for (bytes, meta) in receive(&mut dev) {
            assert_eq!((meta.segment_size, meta.checksum), (0, Checksum::Good));
            assert_eq!(bytes.len(), 20 + 32 + usize::from(MSS));
            got += 1;
        }
        segments += 40;
    }
    let lost = dev.counters().rx_dropped(RxDrop::FaultLoss);
    assert_eq!(got + lost, segments);
    assert!((300..500).contains(&lost), "a tenth of {segments} segments, and {lost} were lost");
}

#[test]
fn what_a_loopback_damages_is_known_to_be_damaged() {
    let mut dev = bad_loopback("corrupt=100%");
    send(&mut dev, &tcp_frame(true, false, Flags::ACK, b"data"), TxMeta::default());
    let (frame, meta) = large();
    send(&mut dev, &frame, meta);
    let got = receive(&mut dev);
    assert_eq!(got.len(), 41);
    assert!(got.iter().all(|(_, meta)| meta.checksum == Checksum::Bad));
}

#[test]
fn a_bad_loopback_cuts_no_more_than_it_can_hand_over() {
    let pool = FramePool::new(PoolBudget {
        small_count: 120,
        small_len: 2048,
        large_count: 8,
        large_len: 66_000,
    });
    let mut dev =
        Fault::on_loopback(Loopback::with_mtu(pool.clone(), 1500), Impairment::default(), 1, pool);
    let (frame, meta) = large();
    for _ in 0..4 {
        send(&mut dev, &frame, meta);
    }
    assert_eq!(dev.next_deadline(), Instant::ZERO);
    assert_eq!(receive(&mut dev).len(), 160);
    assert_eq!((dev.counters().rx_dropped_total(), dev.next_deadline()), (0, Instant::NEVER));
}
