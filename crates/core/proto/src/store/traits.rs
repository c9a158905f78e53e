//! What a store does, as the state machine and its owner see it.

use clearway_base::Duration;
use clearway_pkt::{Buf, Piece};

use crate::trace::Trace;

/// What is reserved for each queue of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Minimum {
    /// Queues that there may be.
    pub queues: u32,
    /// Bytes for each of them.
    pub len: u32,
}

impl Minimum {
    /// What each of so many queues should have: room for a request or an answer of the usual kind,
    /// 2 KiB. With more than half a million of them it is less, so that all of it is 1 GiB of
    /// address space, but no less than 256 bytes.
    pub const fn of(queues: u32) -> Minimum {
        const ALL: u32 = 1 << 30;
        let each = match ALL.checked_div(queues) {
            Some(each) => each,
            None => 0,
        };
        let len = if each > 2_048 {
            2_048
        } else if each < 256 {
            256
        } else {
            each
        };
        Minimum { queues, len }
    }
}

/// The types that a stack is built over.
pub trait Env {
    /// The packet buffers that devices hand in.
    type Buf: Buf;
    /// Where received bytes wait for their owner.
    type Rx: RxStore<Self::Buf>;
    /// Where written bytes wait until they are acknowledged.
    type Tx: TxStore;

    /// Something has happened: for probes. Must be quick, and changes nothing.
    #[inline(always)]
    fn trace(what: Trace<'_>) {
        let _ = what;
    }
}

/// Received bytes.
///
/// ```text
///        consumed      in order, unread      holes and out-of-order pieces
///   ──────────────┬───────────────────────┬──────────────────────────────────▶ sequence space
///                 └ front                  └ edge (RCV.NXT): `at` counts from here
/// ```
pub trait RxStore<B: Buf> {
    /// What is kept per connection; small.
    type Queue;

    /// A queue for a new connection whose owner gave `token`; None when there is no memory for one
    /// more.
    fn open(&mut self, token: u64) -> Option<Self::Queue>;

    /// The connection is gone; all memory of its queue is free again.
    fn close(&mut self, queue: Self::Queue);

    /// Keeps the bytes of `buf`, whose first byte lies `at` bytes past the edge. The caller has cut
    /// `buf` to bytes that are not here yet. Returns how many were kept, counted from the first;
    /// fewer than all when memory is short.
    fn write(&mut self, queue: &mut Self::Queue, at: u32, buf: B) -> u32;

    /// Urgent data ends `ahead` bytes past the edge (RFC 6093). Told before the edge moves over it,
    /// so that an owner who reads behind the stack's back knows in time.
    fn urgent(&mut self, _queue: &mut Self::Queue, _ahead: u32) {}

    /// The edge moves `n` bytes up, over bytes that were all written.
    fn advance(&mut self, queue: &mut Self::Queue, n: u32);

    /// Keeps the bytes of `buf`, which lie at the edge with none behind them yet, and moves the
    /// edge up over those that were kept; says how many.
    #[inline]
    fn append(&mut self, queue: &mut Self::Queue, buf: B) -> u32 {
        let len = buf.len() as u32;
        let kept = self.write(queue, 0, buf).min(len);
        self.advance(queue, kept);
        kept
    }

    /// As [`RxStore::append`], of the `len` bytes behind the first `front` of `buf`. A store that
    /// keeps the buffer had better narrow it where it lies then: a processor waits that has to read
    /// together what was just written in pieces.
    #[inline]
    fn append_part(&mut self, queue: &mut Self::Queue, mut buf: B, front: u32, len: u32) -> u32 {
        buf.narrow(front as usize, len as usize);
        self.append(queue, buf)
    }

    /// In-order bytes that the owner has not consumed. Another process may be reading: the answer
    /// may shrink between two calls.
    fn unread(&self, queue: &Self::Queue) -> u32;

    /// How many bytes past the edge the store is willing to take, when no more than `most` shall be
    /// there, unread ones counted: what the receive window may promise. Another process may be
    /// reading: the answer may change between two calls, and what was promised before must be taken
    /// all the same, though `most` has become less.
    fn room(&self, queue: &Self::Queue, most: u32) -> u32;

    /// The peer was promised `left` bytes more, which is half of what the window may be, or less:
    /// an owner who reads without telling ([`Stack::consumed`](crate::Stack::consumed)) shall tell
    /// when half of all is free. What is free now is looked at afterwards.
    fn window_is_low(&self, _queue: &Self::Queue, _left: u32) {}

    /// What [`RxStore::room`] says of a new queue at best: no window will be larger.
    fn largest_room(&self) -> u32;

    /// The oldest unread in-order bytes that lie together; empty when there are none.
    fn front<'a>(&'a self, queue: &'a Self::Queue) -> &'a [u8];

    /// The owner is done with the oldest `n` unread bytes.
    fn consume(&mut self, queue: &mut Self::Queue, n: u32);

    /// Copies bytes that were kept into `out`, from the one that stands `at` bytes behind the
    /// oldest unread byte on, beyond the edge too; returns how many lie there without a hole. For
    /// [`Stack::export`](crate::Stack::export): a store that does not say more than this one can
    /// only be exported while all that it holds lies together and in order.
    fn peek(&self, queue: &Self::Queue, at: u32, out: &mut [u8]) -> usize {
        let bytes = self.front(queue).get(at as usize..).unwrap_or(&[]);
        let n = bytes.len().min(out.len());
        out[..n].copy_from_slice(&bytes[..n]);
        n
    }

    /// What the calendar shows, since the start of 1970: the time of what is written from now on,
    /// for who notes it.
    fn set_calendar(&mut self, since_1970: Duration) {
        let _ = since_1970;
    }

    /// Whether memory was found to be so scarce that windows promise less; [`RxStore::relax`] finds
    /// out when it no longer is.
    #[inline]
    fn is_scarce(&self) -> bool {
        false
    }

    /// Looks again how much windows may promise.
    fn relax(&mut self) {}

    /// How many bytes of memory the queue holds beyond the minimum that is its own:
    /// [`crate::store::lending`].
    #[inline]
    fn borrowed(&self, queue: &Self::Queue) -> u64 {
        let _ = queue;
        0
    }

    /// Whether memory is short: queues that hold more than their minimum and do not move have to
    /// give it back.
    #[inline]
    fn is_short(&self) -> bool {
        false
    }
}

/// Bytes to send. They stay here until the peer has acknowledged them; sending and sending again
/// both only peek.
///
/// ```text
///        acknowledged        sent               not sent yet
///   ─────────────────┬────────────────────┬──────────────────────┐
///                    └ front (SND.UNA)     └ SND.NXT              └ len
/// ```
pub trait TxStore {
    /// What is kept per connection; small.
    type Queue;

    /// A queue for a new connection whose owner gave `token`; None when there is no memory for one
    /// more.
    fn open(&mut self, token: u64) -> Option<Self::Queue>;

    /// The connection is gone; all memory of its queue is free again.
    fn close(&mut self, queue: Self::Queue);

    /// Bytes held, from the front to the last one written. Another process may be adding to them:
    /// the answer may grow between two calls, never shrink.
    fn len(&self, queue: &Self::Queue) -> u32;

    /// How many more bytes would be taken by [`TxStore::write`] now.
    fn room(&self, queue: &Self::Queue) -> u32;

    /// Adds bytes at the end, no more than that `most` are held then; returns how many were taken.
    /// What always fits may be taken without asking for `most`.
    fn write(&mut self, queue: &mut Self::Queue, bytes: &[u8], most: impl FnOnce() -> u32)
    -> usize;

    /// The connection is held back for want of bytes, and so many may be in its queue: for a store
    /// whose owner writes behind the stack's back.
    fn widen(&mut self, queue: &mut Self::Queue, most: u32) {
        let _ = (queue, most);
    }

    /// Copies bytes that start `at` bytes behind the front into `out`; returns how many there were.
    /// Takes `&mut` so that a store may remember where it was: the next peek usually goes on where
    /// this one ended.
    fn peek(&mut self, queue: &mut Self::Queue, at: u32, out: &mut [u8]) -> usize;

    /// Points at the `len` bytes that start `at` bytes behind the front, piece after piece, for who
    /// can send them from where they lie; returns how many pieces that makes. 0: copy them by
    /// [`TxStore::peek`], because the store lends nothing, or in more pieces than there are places.
    #[inline]
    fn lend<'a>(
        &'a self,
        queue: &'a mut Self::Queue,
        at: u32,
        len: u32,
        pieces: &mut [Piece<'a>],
    ) -> usize {
        let _ = (queue, at, len, pieces);
        0
    }

    /// The oldest `n` bytes were acknowledged.
    fn consume(&mut self, queue: &mut Self::Queue, n: u32);

    /// What the calendar shows, since the start of 1970: the time of what is peeked to be sent, and
    /// of what is acknowledged, from now on, for who notes it.
    fn set_calendar(&mut self, since_1970: Duration) {
        let _ = since_1970;
    }

    /// Whether the owner is in the midst of writing: more bytes follow at once and will be told of,
    /// so what does not fill a segment may wait for them, as under a cork. Asked after
    /// [`TxStore::len`].
    #[inline]
    fn more_follows(&self, queue: &Self::Queue) -> bool {
        let _ = queue;
        false
    }

    /// How many bytes of memory the queue holds beyond the minimum that is its own:
    /// [`crate::store::lending`].
    #[inline]
    fn borrowed(&self, queue: &Self::Queue) -> u64 {
        let _ = queue;
        0
    }

    /// Whether memory is short: queues that hold more than their minimum and do not move have to
    /// give it back.
    #[inline]
    fn is_short(&self) -> bool {
        false
    }

    /// Something will be done about this queue soon: what it holds is brought nearer to the
    /// processor. A store that holds little does nothing.
    #[inline]
    fn prefetch(&self, queue: &Self::Queue) {
        let _ = queue;
    }
}
