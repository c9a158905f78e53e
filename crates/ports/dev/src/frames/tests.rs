use super::*;

fn tiny() -> FramePool {
    FramePool::new(PoolBudget { small_count: 2, small_len: 100, large_count: 1, large_len: 1000 })
}

#[test]
fn the_default_budget_is_tens_of_mebibytes_and_holds_the_longest_frame() {
    let budget = PoolBudget::default();
    assert!((16 << 20..64 << 20).contains(&budget.bytes()));
    assert!(budget.large_len >= 14 + 4 + 40 + 65_535);
    assert!(PoolBudget::of_bytes(0).small_count >= 64);
}

#[test]
fn small_requests_never_take_large_buffers() {
    let pool = tiny();
    let held = (pool.take(100).unwrap(), pool.take(1).unwrap());
    assert!(pool.take(1).is_none());
    assert_eq!(pool.large().available(), 1);
    drop(held);
    assert_eq!(pool.take(101).unwrap().bytes().len(), 1000);
    assert!(pool.take(1001).is_none());
}

#[test]
fn a_short_frame_leaves_its_large_buffer() {
    let pool = tiny();
    let mut buf = pool.take(500).unwrap();
    buf.truncate(60);
    buf.bytes_mut().fill(7);
    let buf = pool.compact(buf);
    assert_eq!((buf.bytes(), buf.footprint()), (&[7u8; 60][..], 100));
    assert_eq!(pool.large().available(), 1);
}

#[test]
fn without_a_small_buffer_the_short_frame_stays_where_it_is() {
    let pool = tiny();
    let _held = (pool.take(1), pool.take(1));
    let mut buf = pool.take(500).unwrap();
    buf.truncate(60);
    assert_eq!(pool.compact(buf).footprint(), 1000);
}

#[test]
fn a_jumbo_frame_takes_a_small_buffer_on_a_jumbo_link() {
    let budget = PoolBudget::for_mtu(4 << 20, 9_000);
    assert!(budget.small_len >= 9_014 && budget.bytes() <= 4 << 20);
    assert_eq!(PoolBudget::for_mtu(32 << 20, 1_500), PoolBudget::default());
}
