use clearway_pkt::Buf;

use super::BufPool;

#[test]
fn a_buffer_that_is_dropped_counts_as_back() {
    let pool = BufPool::new(2, 2048);
    let one = pool.copy_of(b"one").unwrap();
    let two = pool.copy_of(b"two").unwrap();
    assert!(pool.copy_of(b"three").is_none());
    assert_eq!(pool.out(), 2);
    drop(one);
    assert_eq!(pool.copy_of(b"three").unwrap().bytes(), b"three");
    drop(two);
    assert_eq!(pool.out(), 0);
}

#[test]
fn trimming_keeps_what_lies_between() {
    let pool = BufPool::new(1, 2048);
    let mut buf = pool.copy_of(b"headpayloadtail").unwrap();
    buf.trim_front(4);
    buf.truncate(7);
    assert_eq!(buf.bytes(), b"payload");
    assert_eq!(buf.footprint(), 2048);
    buf.trim_front(100);
    assert!(buf.bytes().is_empty());
}
