use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Thing {
    value: usize,
    counted: bool,
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.value = usize::MAX;
        if self.counted {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn table() -> &'static Table<Thing> {
    Box::leak(Box::new(Table::new()))
}

fn thing(value: usize) -> Thing {
    Thing { value, counted: false }
}

#[test]
fn an_empty_table_has_nothing_at_any_number() {
    let table = table();
    for fd in [c_int::MIN, -1, 0, 1023, 1024, 1_048_575, 1_048_576, c_int::MAX] {
        assert!(!table.has(fd) && table.get(fd).is_none());
    }
}

#[test]
fn what_is_put_is_found_until_it_is_replaced() {
    let table = table();
    for fd in [0, 5, 1024, 1_048_575] {
        assert!(table.put(fd, Some(table.make(thing(7)))).is_none());
        assert_eq!(table.get(fd).map(|held| held.value), Some(7));
        let old = table.put(fd, Some(table.make(thing(8))));
        assert_eq!(old.map(|held| held.value), Some(7));
        assert_eq!(table.put(fd, None).map(|held| held.value), Some(8));
        assert!(table.get(fd).is_none());
    }
    assert!(table.put(1_048_576, Some(table.make(thing(1)))).is_none());
    assert!(table.get(1_048_576).is_none());
}

#[test]
fn a_copy_of_a_descriptor_is_the_same_object() {
    let table = table();
    table.put(3, Some(table.make(thing(1))));
    table.put(4, table.get(3));
    assert!(table.get(3).zip(table.get(4)).is_some_and(|(a, b)| a.same(&b)));
    table.put(3, None);
    assert_eq!(table.get(4).map(|held| held.value), Some(1));
}

#[test]
fn a_range_gives_what_is_there_in_order() {
    let table = table();
    for fd in [2, 1023, 1024, 5000, 1_048_575] {
        table.put(fd, Some(table.make(thing(1))));
    }
    assert_eq!(table.range(0, c_int::MAX).collect::<Vec<_>>(), [2, 1023, 1024, 5000, 1_048_575]);
    assert_eq!(table.range(3, 1024).collect::<Vec<_>>(), [1023, 1024]);
    assert_eq!(table.range(1025, 4999).count(), 0);
    assert_eq!(table.range(-5, -1).count(), 0);
}

#[test]
fn readers_never_see_an_object_that_is_gone() {
    const FDS: c_int = 4;
    const ROUNDS: usize = 20_000;
    let table = table();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for fd in 0..FDS {
                        if let Some(held) = table.get(fd) {
                            assert_eq!(held.value % 4, fd as usize);
                            assert_ne!(held.value, usize::MAX);
                        }
                    }
                }
            })
        })
        .collect();
    let before = DROPPED.load(Ordering::Relaxed);
    for round in 0..ROUNDS {
        let fd = (round % 4) as c_int;
        table.put(fd, Some(table.make(Thing { value: round, counted: true })));
        if round % 3 == 0 {
            table.put(fd, None);
        }
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("a reader saw what it should not");
    }
    for fd in 0..FDS {
        table.put(fd, None);
    }
    assert_eq!(DROPPED.load(Ordering::Relaxed) - before, ROUNDS);
}

#[test]
fn who_finds_a_descriptor_that_is_being_closed_waits_for_what_it_becomes() {
    let table = table();
    assert!(table.begin_close(5).is_none(), "nothing is there");
    for becomes in [None, Some(2)] {
        table.put(5, Some(table.make(thing(1))));
        let old = table.begin_close(5).expect("it was there");
        assert!(old.value == 1 && old.is_last() && table.has(5) && table.is_going(5));
        assert!(table.begin_close(5).is_none(), "closed twice");
        let found = thread::scope(|scope| {
            let looks = scope.spawn(|| table.get(5).map(|held| held.value));
            thread::yield_now();
            match becomes {
                // Somebody has got the number before the first one is done.
                Some(value) => assert!(table.put(5, Some(table.make(thing(value)))).is_none()),
                None => table.end_close(5),
            }
            looks.join().unwrap()
        });
        assert_eq!(found, becomes);
        table.end_close(5);
        assert!(!table.is_going(5) && !table.is_going(6));
        assert_eq!(table.get(5).map(|held| held.value), becomes);
        table.put(5, None);
    }
    // Who was to end it is gone: it is the kernel's after a while.
    table.put(5, Some(table.make(thing(1))));
    table.begin_close(5).expect("it was there");
    assert!(table.get(5).is_none());
}

#[test]
fn what_other_threads_held_and_closed_at_a_fork_is_forgotten_in_the_child() {
    let table = table();
    table.put(3, Some(table.make(Thing { value: 1, counted: false })));
    table.put(4, table.get(3));
    table.put(5, Some(table.make(thing(2))));
    // A thread of the parent is inside of a call, and another is about to close a descriptor.
    std::mem::forget(table.get(3));
    std::mem::forget(table.begin_close(5));
    assert_eq!(table.after_fork_in_child(), [5]);
    assert!(!table.has(5) && table.get(5).is_none());
    let held = table.begin_close(4).expect("it is there");
    assert!(!held.is_last());
    table.end_close(4);
    drop(held);
    let held = table.begin_close(3).expect("it is there");
    assert!(held.is_last());
    table.end_close(3);
}
