//! The stores of simulated stacks: the core's own, one kind or the other by seed, with a count of
//! the queues that are open.

use std::cell::Cell;
use std::rc::Rc;

use clearway_pkt::Piece;
use clearway_proto::store::chain::{ChainQueue, ChainRx};
use clearway_proto::store::ring::{RingRx, RingTx, RxQueue, TxQueue};
use clearway_proto::{Env, RxStore, TxStore};

use crate::buf::SimBuf;

/// The types that simulated stacks are built over.
pub struct SimEnv;

impl Env for SimEnv {
    type Buf = SimBuf;
    type Rx = SimRx;
    type Tx = SimTx;
}

/// How many queues of a store are open; the world keeps one half of it, the store the other.
#[derive(Clone, Default)]
pub struct Open(Rc<Cell<usize>>);

impl Open {
    /// Queues that are open now.
    pub fn count(&self) -> usize {
        self.0.get()
    }

    fn add(&self) {
        self.0.set(self.0.get() + 1);
    }

    fn sub(&self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A receive store of either kind.
pub struct SimRx {
    kind: Kind,
    open: Open,
}

enum Kind {
    Chain(ChainRx<SimBuf>),
    Ring(RingRx),
}

/// A queue of either kind.
pub enum SimRxQueue {
    /// Of a chain of packet buffers.
    Chain(ChainQueue),
    /// Of a ring of bytes.
    Ring(RxQueue),
}

impl SimRx {
    /// A store that keeps packet buffers.
    pub fn chain(store: ChainRx<SimBuf>, open: &Open) -> SimRx {
        SimRx { kind: Kind::Chain(store), open: open.clone() }
    }

    /// A store that copies into rings.
    pub fn ring(store: RingRx, open: &Open) -> SimRx {
        SimRx { kind: Kind::Ring(store), open: open.clone() }
    }
}

/// What a queue that was opened by one kind of store and brought to the other would be: impossible
/// here.
fn mixed() -> ! {
    panic!("a queue of one store was brought to another")
}

impl RxStore<SimBuf> for SimRx {
    type Queue = SimRxQueue;

    fn open(&mut self, token: u64) -> Option<SimRxQueue> {
        let queue = match &mut self.kind {
            Kind::Chain(s) => SimRxQueue::Chain(s.open(token)?),
            Kind::Ring(s) => SimRxQueue::Ring(RxStore::<SimBuf>::open(s, token)?),
        };
        self.open.add();
        Some(queue)
    }

    fn close(&mut self, queue: SimRxQueue) {
        self.open.sub();
        match (&mut self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.close(q),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::close(s, q),
            _ => mixed(),
        }
    }

    fn write(&mut self, queue: &mut SimRxQueue, at: u32, buf: SimBuf) -> u32 {
        match (&mut self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.write(q, at, buf),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => s.write(q, at, buf),
            _ => mixed(),
        }
    }

    fn advance(&mut self, queue: &mut SimRxQueue, n: u32) {
        match (&mut self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.advance(q, n),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::advance(s, q, n),
            _ => mixed(),
        }
    }

    fn unread(&self, queue: &SimRxQueue) -> u32 {
        match (&self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.unread(q),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::unread(s, q),
            _ => mixed(),
        }
    }

    fn room(&self, queue: &SimRxQueue, most: u32) -> u32 {
        match (&self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.room(q, most),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::room(s, q, most),
            _ => mixed(),
        }
    }

    fn largest_room(&self) -> u32 {
        match &self.kind {
            Kind::Chain(s) => s.largest_room(),
            Kind::Ring(s) => RxStore::<SimBuf>::largest_room(s),
        }
    }

    fn front<'a>(&'a self, queue: &'a SimRxQueue) -> &'a [u8] {
        match (&self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.front(q),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::front(s, q),
            _ => mixed(),
        }
    }

    fn peek(&self, queue: &SimRxQueue, at: u32, out: &mut [u8]) -> usize {
        match (&self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.peek(q, at, out),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::peek(s, q, at, out),
            _ => mixed(),
        }
    }

    fn consume(&mut self, queue: &mut SimRxQueue, n: u32) {
        match (&mut self.kind, queue) {
            (Kind::Chain(s), SimRxQueue::Chain(q)) => s.consume(q, n),
            (Kind::Ring(s), SimRxQueue::Ring(q)) => RxStore::<SimBuf>::consume(s, q, n),
            _ => mixed(),
        }
    }
}

/// The transmit store, counted.
pub struct SimTx {
    store: RingTx,
    open: Open,
}

impl SimTx {
    /// A transmit store.
    pub fn new(store: RingTx, open: &Open) -> SimTx {
        SimTx { store, open: open.clone() }
    }
}

impl TxStore for SimTx {
    type Queue = TxQueue;

    fn open(&mut self, token: u64) -> Option<TxQueue> {
        let queue = self.store.open(token)?;
        self.open.add();
        Some(queue)
    }

    fn close(&mut self, queue: TxQueue) {
        self.open.sub();
        self.store.close(queue);
    }

    fn len(&self, queue: &TxQueue) -> u32 {
        self.store.len(queue)
    }

    fn room(&self, queue: &TxQueue) -> u32 {
        self.store.room(queue)
    }

    fn write(&mut self, queue: &mut TxQueue, bytes: &[u8], most: impl FnOnce() -> u32) -> usize {
        self.store.write(queue, bytes, most)
    }

    fn peek(&mut self, queue: &mut TxQueue, at: u32, out: &mut [u8]) -> usize {
        self.store.peek(queue, at, out)
    }

    fn lend<'a>(
        &'a self,
        queue: &'a mut TxQueue,
        at: u32,
        len: u32,
        pieces: &mut [Piece<'a>],
    ) -> usize {
        self.store.lend(queue, at, len, pieces)
    }

    fn consume(&mut self, queue: &mut TxQueue, n: u32) {
        self.store.consume(queue, n);
    }
}
