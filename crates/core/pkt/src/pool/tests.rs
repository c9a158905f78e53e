use super::*;

#[test]
fn a_dropped_buffer_is_there_again_and_no_more_than_count_are_given_out() {
    let pool = Pool::new(2, 100);
    let a = pool.take().unwrap();
    let b = pool.take().unwrap();
    assert!(pool.take().is_none());
    drop(a);
    assert_eq!(pool.available(), 1);
    let c = pool.take().unwrap();
    assert_eq!(c.bytes().len(), 100);
    drop((b, c));
    assert_eq!(pool.available(), pool.count());
}

#[test]
fn trimming_never_goes_past_the_other_end() {
    let pool = Pool::new(1, 10);
    let mut buf = pool.copy_of(b"abcdef").unwrap();
    buf.trim_front(2);
    assert_eq!(buf.bytes(), b"cdef");
    buf.truncate(3);
    assert_eq!(buf.bytes(), b"cde");
    buf.truncate(50);
    assert_eq!(buf.bytes(), b"cde");
    buf.trim_front(usize::MAX);
    assert!(buf.bytes().is_empty());
    assert_eq!(buf.footprint(), 10);
}

#[test]
fn a_copy_that_does_not_fit_is_refused_and_takes_nothing() {
    let pool = Pool::new(1, 4);
    assert!(pool.copy_of(b"12345").is_none());
    assert_eq!(pool.available(), 1);
}
