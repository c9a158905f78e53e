use alloc::vec;
use alloc::vec::Vec;

use clearway_pkt::{Piece, Pool, PoolBuf};
use proptest::prelude::*;

use super::{RingRx, RingTx, RxQueue, TxQueue};
use crate::store::{Minimum, RxStore, TxStore};

fn drain(store: &mut RingTx, queue: &mut TxQueue, at: u32, n: usize) -> Vec<u8> {
    let mut out = vec![0; n];
    let got = store.peek(queue, at, &mut out);
    out.truncate(got);
    out
}

/// The same by pieces; None when the store does not lend them.
fn lent(store: &RingTx, queue: &mut TxQueue, at: u32, n: usize, places: usize) -> Option<Vec<u8>> {
    let mut pieces = vec![Piece::EMPTY; places];
    match store.lend(queue, at, n as u32, &mut pieces) {
        0 => None,
        count => Some(pieces[..count].iter().flat_map(Piece::bytes).collect()),
    }
}

#[test]
fn what_has_more_pieces_than_places_or_is_not_there_is_not_lent() {
    let mut s = RingTx::new(8, 16, 1000);
    let mut q = s.open(0).unwrap();
    let all: Vec<u8> = (0..100).collect();
    assert_eq!(lent(&s, &mut q, 0, 1, 4), None);
    assert_eq!(s.write(&mut q, &all, || u32::MAX), 100);
    s.consume(&mut q, 10);
    assert_eq!(lent(&s, &mut q, 0, 54, 4).as_deref(), Some(&all[10..64]));
    assert_eq!(lent(&s, &mut q, 0, 55, 4), None);
    assert_eq!(lent(&s, &mut q, 40, 50, 4).as_deref(), Some(&all[50..]));
    assert_eq!(lent(&s, &mut q, 40, 51, 4), None);
    assert_eq!(
        (lent(&s, &mut q, 90, 1, 4), lent(&s, &mut q, 3, 0, 4), lent(&s, &mut q, 0, 1, 0)),
        (None, None, None)
    );
}

#[test]
fn queues_are_small() {
    assert!(size_of::<TxQueue>() <= 24);
    assert!(size_of::<RxQueue>() <= 24);
}

#[test]
fn an_idle_queue_holds_no_chunk() {
    let mut s = RingTx::new(4, 64, 1000);
    let mut q = s.open(0).unwrap();
    assert_eq!(s.free_chunks(), 4);
    for _ in 0..100 {
        assert_eq!(s.write(&mut q, &[7; 50], || u32::MAX), 50);
        assert_eq!(s.free_chunks(), 3);
        assert_eq!(drain(&mut s, &mut q, 0, 100), [7; 50]);
        s.consume(&mut q, 50);
        assert_eq!(s.free_chunks(), 4);
    }
    s.close(q);
}

#[test]
fn bytes_stay_until_they_are_consumed_and_can_be_read_again() {
    let mut s = RingTx::new(8, 16, 1000);
    let mut q = s.open(0).unwrap();
    let all: Vec<u8> = (0..100).collect();
    assert_eq!(s.write(&mut q, &all, || u32::MAX), 100);
    assert_eq!(drain(&mut s, &mut q, 0, 40), all[..40]);
    assert_eq!(drain(&mut s, &mut q, 40, 40), all[40..80]);
    assert_eq!(drain(&mut s, &mut q, 10, 30), all[10..40]);
    assert_eq!(drain(&mut s, &mut q, 80, 40), all[80..]);
    assert_eq!(drain(&mut s, &mut q, 100, 1), []);
    s.consume(&mut q, 37);
    assert_eq!(drain(&mut s, &mut q, 0, 100), all[37..]);
    assert_eq!(s.free_chunks(), 3);
}

#[test]
fn a_write_takes_what_the_limit_and_the_arena_leave() {
    let mut s = RingTx::new(4, 16, 50);
    let (mut a, mut b) = (s.open(0).unwrap(), s.open(1).unwrap());
    assert_eq!(s.room(&a), 50);
    assert_eq!(s.write(&mut a, &[1; 100], || u32::MAX), 50);
    assert_eq!((s.room(&a), s.room(&b)), (0, 0));
    assert_eq!(s.write(&mut b, &[2; 5], || u32::MAX), 0);
    assert_eq!(s.len(&b), 0);
    s.consume(&mut a, 20);
    assert_eq!(s.write(&mut b, &[2; 100], || u32::MAX), 16);
    assert_eq!(drain(&mut s, &mut b, 0, 100), [2; 16]);
    s.close(a);
    s.close(b);
    assert_eq!(s.free_chunks(), 4);
}

#[test]
fn every_queue_has_its_minimum_however_much_others_hold() {
    let mut s = RingTx::shared(64, 64, 1 << 20, Minimum { queues: 40, len: 16 });
    let mut hogs: Vec<TxQueue> = (0..39).map(|i| s.open(i).unwrap()).collect();
    let taken: Vec<usize> =
        hogs.iter_mut().map(|q| s.write(q, &[1; 10_000], || u32::MAX)).collect();
    assert!(taken[0] > 30 * 64 && taken[0] < 64 * 64, "the first has much and not all: {taken:?}");
    assert!(taken[20..].iter().all(|n| *n == 16), "and the last have what is theirs: {taken:?}");
    assert!(s.is_short());
    let mut honest = s.open(39).unwrap();
    for _ in 0..10 {
        assert_eq!(s.room(&honest), 16);
        assert_eq!(s.write(&mut honest, &[2; 100], || u32::MAX), 16);
        assert_eq!((s.room(&honest), s.borrowed(&honest)), (0, 0));
        assert_eq!(drain(&mut s, &mut honest, 0, 100), [2; 16]);
        s.consume(&mut honest, 16);
    }
    // What one gives back is there for the next, and no more than its cap.
    let first = hogs.remove(0);
    assert_eq!(s.borrowed(&first), taken[0] as u64);
    s.close(first);
    assert!(!s.is_short());
    let now = s.write(&mut honest, &[3; 10_000], || u32::MAX);
    assert!(now > 64 && now <= taken[0], "{now}");
    assert_eq!(drain(&mut s, &mut honest, 0, 10_000), vec![3; now]);
}

#[test]
fn a_queue_goes_on_from_its_minimum_in_chunks_that_are_lent() {
    let mut s = RingTx::shared(8, 64, 400, Minimum { queues: 2, len: 16 });
    let mut q = s.open(0).unwrap();
    let all: Vec<u8> = (0..150).collect();
    assert_eq!(s.write(&mut q, &all[..10], || u32::MAX), 10);
    assert_eq!((s.free_chunks(), s.borrowed(&q)), (8, 0));
    assert_eq!(s.write(&mut q, &all[10..], || u32::MAX), 140);
    assert_eq!((s.free_chunks(), s.borrowed(&q)), (5, 192));
    assert_eq!(drain(&mut s, &mut q, 0, 200), all);
    assert_eq!(lent(&s, &mut q, 0, 150, 4).as_deref(), Some(&all[..]));
    s.consume(&mut q, 16);
    assert_eq!((s.borrowed(&q), drain(&mut s, &mut q, 0, 200)), (192, all[16..].to_vec()));
    s.close(q);
    assert_eq!(s.free_chunks(), 8);
}

proptest! {
    #[test]
    fn a_transmit_queue_behaves_like_a_vector(
        shared in any::<bool>(),
        ops in prop::collection::vec((0u8..4, 0usize..2, 0usize..200, 0usize..200), 1..200),
    ) {
        let minimum = Minimum { queues: 2, len: 16 };
        let mut s = if shared { RingTx::shared(24, 64, 250, minimum) } else { RingTx::new(24, 16,
            250) };
        let mut queues = [s.open(0).unwrap(), s.open(1).unwrap()];
        let mut models = [Vec::new(), Vec::new()];
        let mut next = 0u8;
        for (op, which, a, b) in ops {
            let (q, model) = (&mut queues[which], &mut models[which]);
            match op {
                0 => {
                    let bytes: Vec<u8> = (0..a).map(|_| { next = next.wrapping_add(1); next })
                        .collect();
                    let room = s.room(q) as usize;
                    let n = s.write(q, &bytes, || u32::MAX);
                    prop_assert_eq!(n, room.min(a));
                    model.extend_from_slice(&bytes[..n]);
                }
                1 => {
                    let n = a.min(model.len());
                    s.consume(q, n as u32);
                    model.drain(..n);
                }
                _ => {
                    let from = a.min(model.len());
                    let to = (a + b).min(model.len()).max(from);
                    prop_assert_eq!(&drain(&mut s, q, a as u32, b)[..], &model[from..to]);
                    let wanted = (b > 0 && a + b <= model.len()).then(|| &model[a..a + b]);
                    let lent = lent(&s, q, a as u32, b, 20);
                    prop_assert_eq!(lent.as_deref(), wanted);
                }
            }
            prop_assert_eq!(s.len(&queues[which]) as usize, models[which].len());
        }
        let [a, b] = queues;
        s.close(a);
        s.close(b);
        prop_assert_eq!(s.free_chunks(), 24);
        let (mut a, mut b) = (s.open(0).unwrap(), s.open(1).unwrap());
        prop_assert_eq!((s.write(&mut a, &[1; 16], || u32::MAX),
            s.write(&mut b, &[1; 16], || u32::MAX)), (16, 16));
        prop_assert_eq!(s.free_chunks(), if shared { 24 } else { 22 },
            "minimums are free again too");
    }
}

fn pool() -> Pool {
    Pool::new(4, 256)
}

fn write(s: &mut RingRx, q: &mut RxQueue, at: u32, bytes: &[u8]) -> u32 {
    s.write(q, at, pool().copy_of(bytes).unwrap())
}

fn advance(s: &mut RingRx, q: &mut RxQueue, n: u32) {
    RxStore::<PoolBuf>::advance(s, q, n);
}

fn consume(s: &mut RingRx, q: &mut RxQueue, n: u32) {
    RxStore::<PoolBuf>::consume(s, q, n);
}

fn front<'a>(s: &'a RingRx, q: &'a RxQueue) -> &'a [u8] {
    RxStore::<PoolBuf>::front(s, q)
}

fn open(s: &mut RingRx) -> RxQueue {
    RxStore::<PoolBuf>::open(s, 0).unwrap()
}

#[test]
fn received_bytes_come_out_in_order_and_leave_no_chunk_behind() {
    let mut s = RingRx::new(16, 16, 200);
    let mut q = open(&mut s);
    assert_eq!(write(&mut s, &mut q, 0, &[1; 10]), 10);
    assert_eq!(front(&s, &q), []);
    advance(&mut s, &mut q, 10);
    assert_eq!(front(&s, &q), [1; 10]);
    assert_eq!(write(&mut s, &mut q, 20, &[3; 5]), 5);
    consume(&mut s, &mut q, 10);
    assert_eq!(write(&mut s, &mut q, 0, &[2; 20]), 20);
    advance(&mut s, &mut q, 25);
    let mut out = Vec::new();
    while !front(&s, &q).is_empty() {
        out.extend_from_slice(front(&s, &q));
        let n = front(&s, &q).len() as u32;
        consume(&mut s, &mut q, n);
    }
    assert_eq!(out, [[2; 20].as_slice(), &[3; 5]].concat());
    assert_eq!(s.free_chunks(), 16);
}

#[test]
fn early_bytes_alone_survive_the_reading_of_everything_else() {
    let mut s = RingRx::new(16, 16, 200);
    let mut q = open(&mut s);
    write(&mut s, &mut q, 0, &[1; 4]);
    write(&mut s, &mut q, 8, &[3; 4]);
    advance(&mut s, &mut q, 4);
    consume(&mut s, &mut q, 4);
    write(&mut s, &mut q, 0, &[2; 4]);
    advance(&mut s, &mut q, 8);
    assert_eq!(front(&s, &q), [2, 2, 2, 2, 3, 3, 3, 3]);
}

#[test]
fn early_bytes_leave_the_last_chunks_to_those_in_order() {
    let mut s = RingRx::new(16, 16, 10_000);
    let mut q = open(&mut s);
    let kept = (1..40).filter(|i| write(&mut s, &mut q, i * 32, &[9]) == 1).count();
    assert_eq!(kept, 14);
    assert_eq!(write(&mut s, &mut q, 0, &[1; 32]), 32);
    RxStore::<PoolBuf>::close(&mut s, q);
    assert_eq!(s.free_chunks(), 16);
}

#[test]
fn nothing_is_kept_beyond_the_limit() {
    let mut s = RingRx::new(64, 16, 100);
    let mut q = open(&mut s);
    assert_eq!(write(&mut s, &mut q, 90, &[1; 20]), 10);
    assert_eq!(write(&mut s, &mut q, 100, &[1; 20]), 0);
    assert_eq!(write(&mut s, &mut q, u32::MAX, &[1; 20]), 0);
}

proptest! {
    #[test]
    fn a_receive_queue_behaves_like_a_vector_with_holes(
        ops in prop::collection::vec((0u8..3, 0usize..150, 1usize..60), 1..200),
    ) {
        let mut s = RingRx::new(40, 16, 300);
        let mut q = open(&mut s);
        let stream = |i: usize| (i * 7 + i / 256) as u8;
        // Position of the front and of the edge in the stream, and what is there behind the edge.
        let (mut read, mut edge) = (0usize, 0usize);
        let mut held = vec![false; 20_000];
        for (op, a, b) in ops {
            if op == 0 {
                let n = a.min(edge - read);
                let mut left = n;
                while left > 0 {
                    let bytes = front(&s, &q);
                    prop_assert!(!bytes.is_empty());
                    for (i, byte) in bytes.iter().enumerate() {
                        prop_assert_eq!(*byte, stream(read + i));
                    }
                    let m = left.min(bytes.len());
                    consume(&mut s, &mut q, m as u32);
                    read += m;
                    left -= m;
                }
            } else {
                let at = if op == 1 { 0 } else { a };
                let from = edge + at;
                let len = (from..from + b).take_while(|&i| !held[i]).count();
                if len == 0 {
                    continue;
                }
                let bytes: Vec<u8> = (from..from + len).map(stream).collect();
                let kept = write(&mut s, &mut q, at as u32, &bytes) as usize;
                prop_assert!(kept == 0 || kept <= len && from + kept - read <= 300);
                held[from..from + kept].fill(true);
                let moved = held[edge..].iter().take_while(|h| **h).count();
                advance(&mut s, &mut q, moved as u32);
                edge += moved;
            }
            prop_assert_eq!(RxStore::<PoolBuf>::unread(&s, &q) as usize, edge - read);
        }
        RxStore::<PoolBuf>::close(&mut s, q);
        prop_assert_eq!(s.free_chunks(), 40);
    }
}
