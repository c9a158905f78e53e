//! What the worker sees while a long write is under way.

use std::cell::RefCell;

use clearway_shm::attach_socket::{FifoPlace, Place};
use clearway_shm::{FifoMem, Segment};

use super::*;

const CAPACITY: u32 = 512 * 1024;

/// Both ends of a FIFO that holds at most `limit` bytes.
fn fifo(limit: u32) -> (Producer, Consumer) {
    let segment = Arc::new(Segment::create("stream-test", CAPACITY as usize + 4096).unwrap().0);
    let place = |offset| Place { segment: 0, offset };
    let place = FifoPlace { head: place(CAPACITY), data: place(0), capacity: CAPACITY, limit };
    let mem = FifoMem::new(&segment, &segment, &place).unwrap();
    (Producer::new(mem.clone()), Consumer::new(mem))
}

/// Writes `parts` as one call, and says what the worker sees whenever it is told: how many bytes
/// there are, and whether more follow.
fn seen(limit: u32, parts: &[usize]) -> Vec<(u32, bool)> {
    seen_within(limit, parts, Bounds::behind(0))
}

fn seen_within(limit: u32, parts: &[usize], bounds: Bounds) -> Vec<(u32, bool)> {
    let (mut producer, consumer) = fifo(limit);
    let consumer = RefCell::new(consumer);
    let seen = RefCell::new(Vec::new());
    let bytes: Vec<Vec<u8>> = parts.iter().map(|len| vec![1; *len]).collect();
    let slices: Vec<IoSlice<'_>> = bytes.iter().map(|part| IoSlice::new(part)).collect();
    let written = write_from(
        &mut producer,
        &slices,
        bounds,
        |_| {},
        || {
            let mut worker = consumer.borrow_mut();
            worker.attend();
            seen.borrow_mut().push((worker.len().unwrap(), worker.more_follows()));
        },
    );
    let seen = seen.into_inner();
    assert_eq!(seen.last().map_or(0, |(len, _)| *len as usize), written.unwrap());
    seen
}

#[test]
fn all_chunks_but_the_last_say_that_more_follows() {
    assert_eq!(seen(CAPACITY, &[100]), [(100, false)]);
    assert_eq!(seen(CAPACITY, &[CHUNK as usize]), [(CHUNK, false)]);
    assert_eq!(seen(CAPACITY, &[150_000]), [(CHUNK, true), (2 * CHUNK, true), (150_000, false)]);
    assert_eq!(seen(CAPACITY, &[60_000, 10_000]), [(CHUNK, true), (70_000, false)]);
    assert_eq!(seen(CAPACITY, &[2 * CHUNK as usize, 0]), [(CHUNK, true), (2 * CHUNK, false)]);
}

#[test]
fn where_there_is_no_room_nothing_follows_before_the_worker_made_some() {
    assert_eq!(seen(CHUNK, &[150_000]), [(CHUNK, false)]);
    assert_eq!(seen(CHUNK + 1, &[150_000]), [(CHUNK, true), (CHUNK + 1, false)]);
    assert_eq!(seen(1000, &[150_000]), [(1000, false)]);
}

#[test]
fn who_says_that_more_follows_says_so_with_the_last_chunk_too() {
    let more = Bounds { more: true, ..Bounds::behind(0) };
    assert_eq!(seen_within(CAPACITY, &[100], more), [(100, true)]);
    assert_eq!(seen_within(CAPACITY, &[CHUNK as usize], more), [(CHUNK, true)]);
    assert_eq!(seen_within(CAPACITY, &[70_000], more), [(CHUNK, true), (70_000, true)]);
    assert_eq!(
        seen_within(1000, &[2000], more),
        [(1000, false)],
        "where there is no room, nothing follows"
    );
    assert_eq!(seen_within(CAPACITY, &[2000], Bounds { most: 1000, ..more }), [(1000, false)]);
}
