use std::sync::atomic::Ordering;

use clearway_pkt::Pool;

use super::*;

const FIFO: u32 = 1 << 20;

/// Whether the reader is asked to tell of room.
fn wants(queue: &RxFifo) -> bool {
    let live = queue.live.borrow();
    live.as_ref().is_some_and(|live| live.end.mem().head().want_room.load(Ordering::Acquire) != 0)
}

#[test]
fn a_reader_is_asked_to_tell_of_room_when_half_of_what_the_connection_is_worth_is_there() {
    let mut store = FifoRx::new(FifoPlan::of_test(7, FIFO), FIFO);
    let mut queue = store.open(7).expect("a FIFO");
    let pool = Pool::new(4, 2_048);
    let worth = FIFO / 2;
    let promised = store.room(&queue, worth);
    assert!(promised <= worth && promised > worth - (1 << 14), "{promised}");
    let mut held = 0;
    while held + 2_048 <= promised {
        assert_eq!(wants(&queue), held > worth / 2, "{held} of {promised}");
        held += store.append(&mut queue, pool.copy_of(&[1; 2_048]).expect("a buffer"));
    }
    assert!(wants(&queue) && store.room(&queue, worth) < 2_048, "the window is all but shut");
    assert_eq!((queue.granted(), queue.limit_and_room().1), (worth, worth - held));
}

#[test]
fn a_reader_is_asked_to_tell_of_room_when_half_of_the_window_is_left_or_less() {
    let mut store = FifoRx::new(FifoPlan::of_test(7, FIFO), FIFO);
    let queue = store.open(7).expect("a FIFO");
    store.window_is_low(&queue, FIFO / 2 + 1);
    assert!(!wants(&queue));
    store.window_is_low(&queue, FIFO / 2);
    assert!(wants(&queue));
}
