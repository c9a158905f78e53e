use clearway_pkt::{Buf, Checksum, Segmentation};

use super::*;
use crate::PoolBudget;

fn pool() -> FramePool {
    FramePool::new(PoolBudget {
        small_count: 4,
        small_len: 2048,
        large_count: 2,
        large_len: 66_000,
    })
}

fn send(dev: &mut Loopback, frame: &[u8], meta: TxMeta) -> bool {
    let Some(room) = dev.reserve(frame.len()) else { return false };
    room[..frame.len()].copy_from_slice(frame);
    dev.commit(frame.len(), meta);
    true
}

#[test]
fn what_is_sent_comes_back_in_order_and_is_vouched_for() {
    let mut dev = Loopback::new(pool());
    assert_eq!(dev.next_deadline(), Instant::NEVER);
    assert!(send(&mut dev, b"first", TxMeta::default()));
    let cut = TxMeta { segmentation: Segmentation::Tcp(1000), ..TxMeta::default() };
    assert!(send(&mut dev, &[9; 60_000], cut));
    assert_eq!(dev.next_deadline(), Instant::ZERO);
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    let (first, meta) = burst.take(0).unwrap();
    assert_eq!((first.bytes(), meta.checksum), (&b"first"[..], Checksum::Good));
    let (second, meta) = burst.take(1).unwrap();
    assert_eq!((second.bytes().len(), meta.segment_size), (60_000, 1000));
    assert!(!dev.must_poll());
    let counters = dev.counters();
    assert_eq!((counters.tx_bytes, counters.rx_bytes, counters.rx_packets), (60_005, 60_005, 2));
}

#[test]
fn a_full_link_takes_nothing_and_loses_nothing() {
    let mut dev = Loopback::with_limit(pool(), 2);
    assert!(send(&mut dev, b"a", TxMeta::default()));
    assert!(send(&mut dev, b"b", TxMeta::default()));
    assert!(!send(&mut dev, b"c", TxMeta::default()));
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), 2);
    assert!(send(&mut dev, b"c", TxMeta::default()));
    assert_eq!(dev.counters().tx_dropped_total(), 0);
}

#[test]
fn buffers_come_back_and_unused_room_costs_none() {
    let pool = pool();
    let mut dev = Loopback::new(pool.clone());
    for _ in 0..100 {
        assert!(dev.reserve(10).is_some());
    }
    assert!(dev.reserve(5000).is_some());
    dev.commit(10, TxMeta::default());
    assert_eq!(
        pool.large().available(),
        2,
        "a short frame does not keep the large buffer that was reserved for it"
    );
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), 1);
    drop((burst, dev));
    assert_eq!((pool.small().available(), pool.large().available()), (4, 2));
}

#[test]
fn a_commit_without_room_is_counted() {
    let mut dev = Loopback::new(pool());
    dev.commit(10, TxMeta::default());
    assert!(dev.reserve(10).is_some());
    dev.commit(5000, TxMeta::default());
    assert_eq!(dev.counters().tx_dropped(TxDrop::BadRequest), 2);
    assert!(dev.reserve(70_000).is_none());
}

#[test]
fn packets_on_their_way_stay_few_enough_to_stay_in_the_cache() {
    let pool = FramePool::new(PoolBudget {
        small_count: 4,
        small_len: 2048,
        large_count: 32,
        large_len: 66_000,
    });
    let mut dev = Loopback::new(pool.clone());
    let mut sent = 0;
    while send(&mut dev, &[7; 64_000], TxMeta::default()) {
        sent += 1;
    }
    assert_eq!((sent, pool.large().available()), (LOOPBACK_BYTES.div_ceil(64_000), 32 - sent));
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), sent);
    assert!(send(&mut dev, &[7; 64_000], TxMeta::default()));
}
