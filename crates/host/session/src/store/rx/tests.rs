use std::sync::atomic::Ordering;

use clearway_pkt::Pool;

use super::*;
use crate::memory::{Account, Memory};
use crate::store::Sizes;

const FIFO: u32 = 1 << 20;

#[test]
fn a_reader_is_asked_to_tell_of_room_when_half_of_what_the_connection_is_worth_is_there() {
    let account =
        Account::within(&Account::within(&Account::host(1 << 30), u64::MAX, 0), u64::MAX, 0);
    let plan = FifoPlan::default();
    plan.listen(
        7,
        Memory::new("test".into(), account),
        Sizes { rx: FIFO, tx: FIFO, notes_arrivals: false },
    );
    let mut store = FifoRx::new(plan, FIFO);
    let mut queue = store.open(7).expect("a FIFO");
    let pool = Pool::new(4, 2_048);
    let wants = |queue: &RxFifo| {
        let live = queue.live.borrow();
        live.as_ref()
            .is_some_and(|live| live.end.mem().head().want_room.load(Ordering::Acquire) != 0)
    };
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
    let account =
        Account::within(&Account::within(&Account::host(1 << 30), u64::MAX, 0), u64::MAX, 0);
    let plan = FifoPlan::default();
    plan.listen(
        7,
        Memory::new("test".into(), account),
        Sizes { rx: FIFO, tx: FIFO, notes_arrivals: false },
    );
    let mut store = FifoRx::new(plan, FIFO);
    let queue = store.open(7).expect("a FIFO");
    let wants = || {
        let live = queue.live.borrow();
        live.as_ref()
            .is_some_and(|live| live.end.mem().head().want_room.load(Ordering::Acquire) != 0)
    };
    store.window_is_low(&queue, FIFO / 2 + 1);
    assert!(!wants());
    store.window_is_low(&queue, FIFO / 2);
    assert!(wants());
}
