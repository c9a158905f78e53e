extern crate std;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use clearway_pkt::{Pool, PoolBuf};
use proptest::prelude::*;

use super::{ChainQueue, ChainRx};
use crate::store::{Minimum, RxStore};

const BUF: u32 = 64;

fn store(nodes: u32, limit: u32) -> (Pool, ChainRx<PoolBuf>) {
    (Pool::new(256, BUF as usize), ChainRx::new(nodes, limit))
}

fn read_all(s: &mut ChainRx<PoolBuf>, q: &mut ChainQueue) -> Vec<u8> {
    let mut out = Vec::new();
    while !s.front(q).is_empty() {
        out.extend_from_slice(s.front(q));
        let n = s.front(q).len() as u32;
        s.consume(q, n);
    }
    out
}

#[test]
fn the_queue_is_small() {
    assert!(size_of::<ChainQueue>() <= 40);
}

#[test]
fn buffers_come_out_in_order_and_go_home_when_read() {
    let (pool, mut s) = store(16, 4096);
    let mut q = s.open(0).unwrap();
    s.write(&mut q, 0, pool.copy_of(&[1; 10]).unwrap());
    s.advance(&mut q, 10);
    s.write(&mut q, 20, pool.copy_of(&[4; 10]).unwrap());
    s.write(&mut q, 10, pool.copy_of(&[3; 10]).unwrap());
    s.write(&mut q, 0, pool.copy_of(&[2; 10]).unwrap());
    assert_eq!(s.unread(&q), 10);
    s.advance(&mut q, 30);
    assert_eq!(read_all(&mut s, &mut q), [[1; 10], [2; 10], [3; 10], [4; 10]].concat());
    assert_eq!((pool.available(), s.free_nodes()), (256, 16));
}

#[test]
fn a_buffer_can_be_read_in_pieces() {
    let (pool, mut s) = store(16, 4096);
    let mut q = s.open(0).unwrap();
    s.write(&mut q, 0, pool.copy_of(&[1, 2, 3, 4]).unwrap());
    s.advance(&mut q, 4);
    s.consume(&mut q, 1);
    assert_eq!(s.front(&q), [2, 3, 4]);
    s.consume(&mut q, 2);
    assert_eq!(s.front(&q), [4]);
    s.consume(&mut q, 100);
    assert!(s.front(&q).is_empty());
    assert_eq!(pool.available(), 256);
}

#[test]
fn early_bytes_are_not_shown_before_the_edge_has_passed_them() {
    let (pool, mut s) = store(16, 4096);
    let mut q = s.open(0).unwrap();
    s.write(&mut q, 5, pool.copy_of(&[2; 5]).unwrap());
    assert!(s.front(&q).is_empty());
    s.write(&mut q, 0, pool.copy_of(&[1; 5]).unwrap());
    s.advance(&mut q, 7);
    assert_eq!(s.front(&q), [1; 5]);
    s.consume(&mut q, 5);
    assert_eq!(s.front(&q), [2; 2]);
}

#[test]
fn single_bytes_cannot_hold_on_to_more_memory_than_the_limit() {
    let (pool, mut s) = store(256, 20 * BUF);
    let mut q = s.open(0).unwrap();
    let mut kept = 0;
    for _ in 0..200 {
        let n = s.write(&mut q, 0, pool.copy_of(&[1]).unwrap());
        s.advance(&mut q, n);
        kept += n;
    }
    assert_eq!(kept, 20);
    assert_eq!(s.room(&q, u32::MAX), 0);
    s.consume(&mut q, 10);
    assert_eq!(s.room(&q, u32::MAX), 10 * BUF / 2);
}

#[test]
fn early_bytes_leave_memory_for_those_that_fill_the_hole() {
    let (pool, mut s) = store(256, 20 * BUF);
    let mut q = s.open(0).unwrap();
    let kept: u32 = (1..100).map(|i| s.write(&mut q, i, pool.copy_of(&[1]).unwrap())).sum();
    assert_eq!(kept, 15);
    assert_eq!(s.write(&mut q, 0, pool.copy_of(&[1]).unwrap()), 1);
    // Of the nodes too, whoever holds them.
    let (pool, mut s) = store(16, 1 << 20);
    let (mut a, mut b) = (s.open(0).unwrap(), s.open(1).unwrap());
    let kept: u32 = (1..100).map(|i| s.write(&mut a, i, pool.copy_of(&[1]).unwrap())).sum();
    assert_eq!(kept, 14);
    assert_eq!(s.write(&mut b, 0, pool.copy_of(&[1]).unwrap()), 1);
}

#[test]
fn bytes_in_order_are_taken_when_there_is_nothing_to_read() {
    let (pool, mut s) = store(16, BUF / 2);
    let mut q = s.open(0).unwrap();
    assert_eq!(s.write(&mut q, 1, pool.copy_of(&[1]).unwrap()), 0);
    assert_eq!(s.write(&mut q, 0, pool.copy_of(&[1]).unwrap()), 1);
    s.advance(&mut q, 1);
    assert_eq!(s.write(&mut q, 0, pool.copy_of(&[1]).unwrap()), 0);
}

#[test]
fn early_bytes_never_keep_out_the_ones_before_them_for_ever() {
    // The early buffer takes all that it may; the one in order is larger than what is left.
    let (pool, mut s) = store(16, 2 * BUF - 8);
    let mut q = s.open(0).unwrap();
    assert_eq!(s.write(&mut q, 10, pool.copy_of(&[1; 10]).unwrap()), 10);
    assert_eq!(s.write(&mut q, 20, pool.copy_of(&[1; 10]).unwrap()), 0);
    for _ in 0..10 {
        assert_eq!(s.write(&mut q, 0, pool.copy_of(&[1]).unwrap()), 1);
        s.advance(&mut q, 1);
        s.consume(&mut q, 1);
    }
}

#[test]
fn buffers_are_left_to_devices_and_every_queue_has_its_minimum() {
    let pool = Pool::new(64, BUF as usize);
    let buffers = pool.clone();
    let pots = Box::new(move |_| (buffers.available(), buffers.count()));
    let mut s: ChainRx<PoolBuf> =
        ChainRx::shared(64, 1 << 20, Minimum { queues: 100, len: 20 }, Some(pots));
    let mut hogs: Vec<ChainQueue> = (0..99).map(|i| s.open(i).unwrap()).collect();
    for q in &mut hogs {
        for _ in 0..64 {
            if let Some(buf) = pool.copy_of(&[1; 30]) {
                s.append(q, buf);
            }
        }
    }
    assert!(pool.available() >= 8, "an eighth is left to the devices");
    assert!(hogs.iter().all(|q| s.unread(q) >= 20), "everybody has something");
    assert!(s.is_short() && s.is_scarce());
    let mut honest = s.open(99).unwrap();
    assert!(s.room(&honest, u32::MAX) >= 20, "a minimum may be promised");
    for _ in 0..10 {
        assert_eq!(s.append(&mut honest, pool.copy_of(&[7; 12]).unwrap()), 12);
        assert_eq!(
            s.append(&mut honest, pool.copy_of(&[8; 12]).unwrap()),
            8,
            "as much as the minimum takes"
        );
        assert_eq!(s.append(&mut honest, pool.copy_of(&[9; 12]).unwrap()), 0);
        assert_eq!(s.borrowed(&honest), 0);
        s.consume(&mut honest, 5);
        assert_eq!(s.front(&honest), [[7; 7].as_slice(), &[8; 8]].concat());
        assert_eq!(read_all(&mut s, &mut honest).len(), 15);
    }
    assert_eq!(
        s.write(&mut honest, 3, pool.copy_of(&[1]).unwrap()),
        0,
        "early bytes have no minimum"
    );
    hogs.into_iter().for_each(|q| s.close(q));
    s.relax();
    assert!(!s.is_short() && !s.is_scarce());
    assert_eq!((pool.available(), s.free_nodes()), (64, 64));
}

#[test]
fn bytes_in_a_minimum_stand_in_order_before_early_ones() {
    let (pool, mut s) = (
        Pool::new(4, BUF as usize),
        ChainRx::shared(4, 3 * BUF, Minimum { queues: 1, len: 20 }, None),
    );
    let mut q = s.open(0).unwrap();
    assert_eq!(s.write(&mut q, 10, pool.copy_of(&[2; 5]).unwrap()), 5);
    let held: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(held.len(), 3);
    let mut other = ChainQueue { own: q.own, ..s.open(1).unwrap() };
    s.low = 4;
    drop(held);
    s.available = 0;
    assert_eq!(s.write(&mut q, 0, pool.copy_of(&[1; 10]).unwrap()), 10);
    s.advance(&mut q, 15);
    s.available = 3;
    assert_eq!(read_all(&mut s, &mut q), [[1; 10].as_slice(), &[2; 5]].concat());
    assert_eq!(s.append(&mut other, pool.copy_of(&[3]).unwrap()), 1);
    s.close(other);
    s.close(q);
    assert_eq!((pool.available(), s.free_nodes()), (4, 4));
}

#[test]
fn closing_gives_everything_back() {
    let (pool, mut s) = store(16, 4096);
    let mut q = s.open(0).unwrap();
    for at in [30, 10, 0, 20] {
        s.write(&mut q, at, pool.copy_of(&[1; 10]).unwrap());
    }
    s.advance(&mut q, 20);
    s.close(q);
    assert_eq!((pool.available(), s.free_nodes()), (256, 16));
}

proptest! {
    #[test]
    fn it_behaves_like_a_vector_with_holes(
        ops in prop::collection::vec((0u8..4, 0usize..2, 0usize..300, 1usize..64), 1..200),
    ) {
        let (pool, mut s) = store(40, 30 * BUF);
        let mut queues = [s.open(0).unwrap(), s.open(1).unwrap()];
        let mut read = [0usize; 2];
        let mut edge = [0usize; 2];
        let mut held = [vec![false; 20_000], vec![false; 20_000]];
        let stream = |w: usize, i: usize| (i * 7 + i / 256 + w) as u8;
        for (op, w, a, b) in ops {
            let (q, held) = (&mut queues[w], &mut held[w]);
            if op == 0 {
                let mut left = a.min(edge[w] - read[w]);
                while left > 0 {
                    let bytes = s.front(q);
                    prop_assert!(!bytes.is_empty());
                    for (i, byte) in bytes.iter().enumerate() {
                        prop_assert_eq!(*byte, stream(w, read[w] + i));
                    }
                    let m = left.min(bytes.len());
                    s.consume(q, m as u32);
                    read[w] += m;
                    left -= m;
                }
            } else {
                let at = if op == 1 { 0 } else { a };
                let from = edge[w] + at;
                let len = (from..from + b).take_while(|&i| !held[i]).count();
                if len == 0 {
                    continue;
                }
                let bytes: Vec<u8> = (from..from + len).map(|i| stream(w, i)).collect();
                let kept = s.write(q, at as u32, pool.copy_of(&bytes).unwrap()) as usize;
                prop_assert!(kept == 0 || kept == len);
                held[from..from + kept].fill(true);
                let moved = held[edge[w]..].iter().take_while(|h| **h).count();
                s.advance(q, moved as u32);
                edge[w] += moved;
            }
            prop_assert_eq!(s.unread(&queues[w]) as usize, edge[w] - read[w]);
            prop_assert!(queues.iter().all(|q| q.footprint <= 31 * BUF));
            prop_assert_eq!(256 - pool.available() as u32, 40 - s.free_nodes());
        }
        let [a, b] = queues;
        s.close(a);
        s.close(b);
        prop_assert_eq!((pool.available(), s.free_nodes()), (256, 40));
    }
}
