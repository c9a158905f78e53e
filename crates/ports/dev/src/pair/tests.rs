use clearway_pkt::{Buf, Checksum};

use super::*;
use crate::PoolBudget;

fn pool() -> FramePool {
    FramePool::new(PoolBudget {
        small_count: 8,
        small_len: 2048,
        large_count: 2,
        large_len: 66_000,
    })
}

#[test]
fn each_end_receives_what_the_other_sent_and_not_its_own() {
    let (mut a, mut b) = pair(PairConfig::default(), &pool());
    assert_ne!(a.mac(), b.mac());
    a.reserve(3).unwrap()[..3].copy_from_slice(b"ab!");
    a.commit(3, TxMeta::default());
    b.reserve(3).unwrap()[..3].copy_from_slice(b"ba!");
    b.commit(3, TxMeta { checksum_start: 34, ..TxMeta::default() });
    let (mut at_a, mut at_b) = (Burst::new(), Burst::new());
    a.rx(&mut at_a).unwrap();
    b.rx(&mut at_b).unwrap();
    let (frame, meta) = at_b.take(0).unwrap();
    assert_eq!((frame.bytes(), meta.checksum), (&b"ab!"[..], Checksum::Unknown));
    let (frame, meta) = at_a.take(0).unwrap();
    assert_eq!((frame.bytes(), meta.checksum), (&b"ba!"[..], Checksum::Good));
    assert_eq!(a.next_deadline(), Instant::NEVER);
}

#[test]
fn a_frame_beyond_the_mtu_is_counted_unless_it_is_to_be_cut() {
    let offloads = Offloads { tso4: true, max_segmented_frame: 65_535, ..Offloads::default() };
    let (mut a, mut b) = pair(PairConfig { offloads, ..PairConfig::default() }, &pool());
    assert!(a.reserve(3000).is_some());
    a.commit(3000, TxMeta::default());
    assert_eq!(a.counters().tx_dropped(TxDrop::TooLong), 1);
    assert!(a.reserve(3000).is_some());
    a.commit(3000, TxMeta { segmentation: Segmentation::Tcp(1448), ..TxMeta::default() });
    let mut burst = Burst::new();
    b.rx(&mut burst).unwrap();
    assert_eq!(burst.peek(0).unwrap().1.segment_size, 1448);
    let (mut plain, _other) = pair(PairConfig::default(), &pool());
    assert!(plain.reserve(3000).is_none());
}

#[test]
fn a_burst_with_little_room_leaves_the_rest_for_the_next() {
    let (mut a, mut b) = pair(PairConfig::default(), &FramePool::new(PoolBudget::default()));
    for n in 0..100u8 {
        a.reserve(1).unwrap()[0] = n;
        a.commit(1, TxMeta::default());
    }
    let mut burst = Burst::new();
    b.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), 64);
    assert_eq!(b.next_deadline(), Instant::ZERO);
    burst.clear();
    b.rx(&mut burst).unwrap();
    assert_eq!((burst.len(), burst.take(35).unwrap().0.bytes()), (36, &[99u8][..]));
}
