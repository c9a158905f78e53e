use clearway_proto::TxStore;
use clearway_shm::Producer;

use super::*;

const FIFO: u32 = 64 * 1024;

/// What a packet of these bytes would be made of.
fn lent(store: &FifoTx, queue: &mut Box<TxFifo>, at: u32, len: u32) -> Option<Vec<u8>> {
    let mut pieces = [Piece::EMPTY; 2];
    match store.lend(queue, at, len, &mut pieces) {
        0 => None,
        count => Some(pieces[..count].iter().flat_map(Piece::bytes).collect()),
    }
}

#[test]
fn bytes_of_a_program_are_lent_where_they_lie() {
    let mut store = FifoTx::new(FifoPlan::of_test(7, FIFO));
    let mut queue = store.open(7).expect("a FIFO");
    let mem = queue.live.borrow().as_ref().unwrap().end.mem().clone();
    let mut process = Producer::new(mem);
    let all: Vec<u8> = (0..2 * FIFO).map(|at| (at % 251) as u8).collect();
    process.write(&all[..50_000]).unwrap();
    assert_eq!(lent(&store, &mut queue, 0, 1), None, "the store has not looked yet");
    assert_eq!(store.len(&queue), 50_000);
    assert_eq!(lent(&store, &mut queue, 10, 40_000).as_deref(), Some(&all[10..40_010]));
    assert_eq!(lent(&store, &mut queue, 10_000, 40_001), None);
    store.consume(&mut queue, 45_000);
    process.write(&all[50_000..90_000]).unwrap();
    assert_eq!(store.len(&queue), 45_000);
    assert_eq!(
        lent(&store, &mut queue, 0, 45_000).as_deref(),
        Some(&all[45_000..90_000]),
        "over the end of the memory"
    );
    queue.bound_unsent(Some(4096));
    assert_eq!(lent(&store, &mut queue, 0, 20_000), None, "what is sent is counted");
}
