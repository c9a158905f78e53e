use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

fn held(ring: &ByteRing) -> Vec<u8> {
    let (first, second) = ring.peek(0, usize::MAX);
    [first, second].concat()
}

#[test]
fn bytes_come_out_in_the_order_they_went_in_across_the_wrap() {
    let mut ring = ByteRing::new(5);
    assert_eq!(ring.write(b"abcd"), 4);
    assert_eq!(ring.consume(3), 3);
    assert_eq!(ring.write(b"efghi"), 4);
    assert_eq!(ring.room(), 0);
    assert_eq!(ring.peek(1, 3), (&b"e"[..], &b"fg"[..]));
    assert_eq!(held(&ring), b"defgh");
}

#[test]
fn peek_and_copy_out_give_nothing_up_and_stop_at_what_is_held() {
    let mut ring = ByteRing::new(8);
    ring.write(b"abc");
    let mut into = [0; 8];
    assert_eq!(ring.copy_out(1, &mut into), 2);
    assert_eq!(&into[..2], b"bc");
    assert_eq!(ring.copy_out(3, &mut into), 0);
    assert_eq!(ring.copy_out(usize::MAX, &mut into), 0);
    assert_eq!(ring.len(), 3);
}

#[test]
fn bytes_written_ahead_are_held_only_once_the_gap_is_filled() {
    let mut ring = ByteRing::new(6);
    ring.write(b"1234");
    ring.consume(4);
    assert_eq!(ring.write_at(2, b"cdefgh"), 4);
    assert!(ring.is_empty());
    assert_eq!(ring.write(b"ab"), 2);
    assert_eq!(ring.extend(4), 4);
    assert_eq!(held(&ring), b"abcdef");
    assert_eq!(ring.extend(1), 0);
    assert_eq!(ring.write_at(usize::MAX, b"z"), 0);
}

#[test]
fn a_writer_can_fill_the_room_in_place() {
    let mut ring = ByteRing::new(4);
    ring.write(b"abc");
    ring.consume(2);
    let (first, second) = ring.room_mut();
    assert_eq!((first.len(), second.len()), (1, 2));
    first.copy_from_slice(b"d");
    second.copy_from_slice(b"ef");
    ring.extend(3);
    assert_eq!(held(&ring), b"cdef");
    let (first, second) = ring.room_mut();
    assert!(first.is_empty() && second.is_empty());
}

#[test]
fn a_ring_of_no_bytes_takes_none() {
    let mut ring = ByteRing::new(0);
    assert_eq!(ring.write(b"a"), 0);
    assert_eq!(ring.consume(1), 0);
    assert_eq!(ring.peek(0, 1), (&b""[..], &b""[..]));
    assert_eq!(ring.room_mut().0.len(), 0);
}

#[test]
fn values_queue_up_to_capacity_and_the_next_is_given_back() {
    let mut ring = Ring::new(2);
    assert_eq!(ring.push('a'), Ok(()));
    assert_eq!(ring.push('b'), Ok(()));
    assert_eq!(ring.push('c'), Err('c'));
    assert!(ring.is_full());
    assert_eq!(ring.pop(), Some('a'));
    assert_eq!(ring.push('c'), Ok(()));
    *ring.back_mut().unwrap() = 'd';
    assert_eq!(ring.front(), Some(&'b'));
    assert_eq!(ring.iter().collect::<Vec<_>>(), [&'b', &'d']);
    ring.clear();
    assert_eq!(ring.pop(), None);
    assert_eq!(Ring::new(0).push(1), Err(1));
}

proptest! {
    #[test]
    fn behaves_as_a_deque_of_bytes(
        capacity in 0..20_usize,
        ops in prop::collection::vec((0..3_u8, prop::collection::vec(any::<u8>(), 0..24),
            0..24_usize), 0..100),
    ) {
        let mut ring = ByteRing::new(capacity);
        let mut model: VecDeque<u8> = VecDeque::new();
        // What was written ahead of the back; None where nothing was.
        let mut ahead: VecDeque<Option<u8>> = std::iter::repeat_n(None, capacity).collect();
        for (op, bytes, n) in ops {
            match op {
                0 => {
                    let fit = bytes.len().min(capacity - model.len());
                    prop_assert_eq!(ring.write(&bytes), fit);
                    model.extend(&bytes[..fit]);
                    ahead.drain(..fit);
                    ahead.extend(std::iter::repeat_n(None, fit));
                }
                1 => {
                    let gone = n.min(model.len());
                    prop_assert_eq!(ring.consume(n), gone);
                    model.drain(..gone);
                }
                _ => {
                    let fit = bytes.len().min((capacity - model.len()).saturating_sub(n));
                    prop_assert_eq!(ring.write_at(n, &bytes), fit);
                    (0..fit).for_each(|i| ahead[n + i] = Some(bytes[i]));
                    let whole = ahead.iter().take(capacity - model.len())
                        .take_while(|b| b.is_some()).count();
                    prop_assert_eq!(ring.extend(whole), whole);
                    model.extend(ahead.drain(..whole).flatten());
                    ahead.extend(std::iter::repeat_n(None, whole));
                }
            }
            prop_assert_eq!(ring.len(), model.len());
            prop_assert_eq!(ring.room(), capacity - model.len());
            prop_assert_eq!(held(&ring), model.iter().copied().collect::<Vec<_>>());
            let mut out = [0; 7];
            let copied = ring.copy_out(n, &mut out);
            prop_assert_eq!(&out[..copied],
                &model.iter().copied().skip(n).take(7).collect::<Vec<_>>()[..]);
        }
    }
}
