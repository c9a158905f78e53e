//! Stores that copy into chunks of an arena of their own: for owners in the same process who write
//! slices and read slices.
//!
//! ```text
//!   queue ──▶ ┌─────────┐   ┌─────────┐   ┌─────────┐
//!             │░░▓▓▓▓▓▓▓│──▶│▓▓▓▓▓▓▓▓▓│──▶│▓▓▓▓     │      ░ gone   ▓ held
//!             └──┼──────┘   └────┼────┘   └────┼────┘
//!                front           cursor        end
//! ```
//!
//! A queue that holds nothing has no chunk.

use clearway_pkt::{Buf, Piece};

use super::arena::{Arena, NONE};
use super::lending::Lending;
use super::traits::{Minimum, RxStore, TxStore};

/// Bytes to send, in chunks.
pub struct RingTx {
    arena: Arena,
    limit: u32,
    /// By which rule large chunks are lent.
    lending: Lending,
}

/// What [`RingTx`] keeps per connection. Positions count bytes of the stream since it began, on a
/// circle of 2^32.
#[derive(Debug)]
pub struct TxQueue {
    /// Position of the first byte held.
    front: u32,
    len: u32,
    head: u32,
    tail: u32,
    /// The chunk that the last peek ended in, and the position of its first byte.
    cursor: u32,
    cursor_at: u32,
}

impl RingTx {
    /// An arena of `chunks` chunks of `chunk_len` bytes (rounded up to a power of two); one queue
    /// holds at most `limit` bytes. Whoever comes first may have everything: for owners who trust
    /// all their peers.
    pub fn new(chunks: u32, chunk_len: u32, limit: u32) -> RingTx {
        RingTx {
            arena: Arena::new(chunks, chunk_len),
            limit: limit.min(1 << 30),
            lending: Lending::ALL,
        }
    }

    /// The same for owners with strangers as peers: each queue has a minimum besides, which nobody
    /// else can take, and the chunks are lent by the rule of [`super::lending`], so that no queue
    /// has to wait for others, however many hold on to what they have.
    pub fn shared(chunks: u32, chunk_len: u32, limit: u32, minimum: Minimum) -> RingTx {
        let limit = limit.min(1 << 30);
        let arena = Arena::with_small(chunks, chunk_len, minimum.queues, minimum.len);
        let limit = limit.max(arena.small_len());
        let lending = Lending::new(chunks.into(), limit.div_ceil(arena.chunk_len()).into());
        RingTx { arena, limit, lending }
    }

    /// Chunks that no queue holds, minimums left out.
    pub fn free_chunks(&self) -> u32 {
        self.arena.available()
    }

    /// Large chunks that a queue holds.
    fn lent(&self, queue: &TxQueue) -> u32 {
        if queue.len == 0 {
            return 0;
        }
        let chunk_len = self.arena.chunk_len();
        let from = u64::from(queue.front & (chunk_len - 1));
        let chunks = (from + u64::from(queue.len)).div_ceil(u64::from(chunk_len)) as u32;
        chunks - u32::from(!self.arena.is_large(queue.head))
    }

    /// How many chunks a queue that holds `lent` may borrow now.
    fn lendable(&self, lent: u32) -> u32 {
        self.lending.room(self.arena.available().into(), lent.into()) as u32
    }

    /// Where the byte after the last one goes in its chunk; the chunk's length when it is full.
    /// Only for queues that hold something.
    #[inline]
    fn fill(&self, queue: &TxQueue) -> usize {
        let mask = self.arena.chunk_len() - 1;
        (queue.front.wrapping_add(queue.len).wrapping_sub(1) & mask) as usize + 1
    }
}

impl TxStore for RingTx {
    type Queue = TxQueue;

    fn open(&mut self, _token: u64) -> Option<TxQueue> {
        Some(TxQueue { front: 0, len: 0, head: NONE, tail: NONE, cursor: NONE, cursor_at: 0 })
    }

    fn close(&mut self, mut queue: TxQueue) {
        let len = queue.len;
        self.consume(&mut queue, len);
    }

    #[inline]
    fn len(&self, queue: &TxQueue) -> u32 {
        queue.len
    }

    fn room(&self, queue: &TxQueue) -> u32 {
        let (chunk_len, lent) = (u64::from(self.arena.chunk_len()), self.lent(queue));
        let free = u64::from(self.lendable(lent)) * chunk_len;
        let free = match queue.len {
            0 if self.arena.has_small() => free.max(self.arena.small_len().into()),
            0 => free,
            _ => free + chunk_len - self.fill(queue) as u64,
        };
        u64::from(self.limit.saturating_sub(queue.len)).min(free) as u32
    }

    // Always, as all of `Stack::send` is: what it costs must not hang on how many places call it.
    #[inline(always)]
    fn write(&mut self, queue: &mut TxQueue, bytes: &[u8], most: impl FnOnce() -> u32) -> usize {
        // What is usual: it fits the minimum of an empty queue, or the chunk that the queue ends
        // in. Anything else goes from chunk to chunk.
        if queue.len == 0 {
            let fits = bytes.len().wrapping_sub(1) < self.arena.small_len() as usize;
            if !fits || !self.write_first(queue, bytes) {
                return self.write_on(queue, bytes, most().min(self.limit));
            }
            return bytes.len();
        }
        let limit = most().min(self.limit);
        let most = limit.saturating_sub(queue.len).min(self.arena.chunk_len()) as usize;
        if bytes.is_empty() || bytes.len() > most {
            return self.write_on(queue, bytes, limit);
        }
        let at = self.fill(queue);
        let Some(room) = self.arena.part_mut(queue.tail, at, bytes.len()) else {
            return self.write_on(queue, bytes, limit);
        };
        room.copy_from_slice(bytes);
        queue.len += bytes.len() as u32;
        bytes.len()
    }

    #[inline]
    fn peek(&mut self, queue: &mut TxQueue, at: u32, out: &mut [u8]) -> usize {
        // What is usual: all of it lies in the chunk where the last peek ended.
        let offset = queue.front.wrapping_add(at).wrapping_sub(queue.cursor_at) as usize;
        let is_held = !out.is_empty() && u64::from(at) + out.len() as u64 <= u64::from(queue.len);
        if is_held {
            if let Some(bytes) = self.arena.part(queue.cursor, offset, out.len()) {
                out.copy_from_slice(bytes);
                return out.len();
            }
        }
        self.peek_on(queue, at, out)
    }

    fn lend<'a>(
        &'a self,
        queue: &'a mut TxQueue,
        at: u32,
        len: u32,
        pieces: &mut [Piece<'a>],
    ) -> usize {
        if len == 0 || u64::from(at) + u64::from(len) > u64::from(queue.len) {
            return 0;
        }
        let (mut chunk, mut chunk_at) = self.chunk_of(queue, at);
        let mut offset = queue.front.wrapping_add(at).wrapping_sub(chunk_at) as usize;
        let mut left = len as usize;
        for (n, place) in pieces.iter_mut().enumerate() {
            let bytes = self.arena.chunk_from(chunk, offset);
            *place = Piece::Own(&bytes[..bytes.len().min(left)]);
            left -= place.len();
            if left == 0 {
                (queue.cursor, queue.cursor_at) = (chunk, chunk_at);
                return n + 1;
            }
            chunk = self.arena.next(chunk);
            chunk_at = chunk_at.wrapping_add(self.arena.chunk_len());
            offset = 0;
        }
        0
    }

    #[inline(always)]
    fn consume(&mut self, queue: &mut TxQueue, n: u32) {
        // What is usual: everything goes, and it lay in one chunk.
        if n == queue.len && n > 0 && queue.head == queue.tail {
            self.arena.give(queue.head);
            queue.len = 0;
            (queue.head, queue.cursor) = (NONE, NONE);
            return;
        }
        self.consume_on(queue, n);
    }

    #[inline]
    fn prefetch(&self, queue: &TxQueue) {
        self.arena.prefetch(queue.head);
    }

    fn borrowed(&self, queue: &TxQueue) -> u64 {
        u64::from(self.lent(queue)) * u64::from(self.arena.chunk_len())
    }

    fn is_short(&self) -> bool {
        self.lending.is_short(self.arena.available().into())
    }
}

impl RingTx {
    #[cold]
    #[inline(never)]
    fn consume_on(&mut self, queue: &mut TxQueue, n: u32) {
        let n = n.min(queue.len);
        let chunk_len = self.arena.chunk_len();
        let mut head_at = queue.front & !(chunk_len - 1);
        queue.front = queue.front.wrapping_add(n);
        queue.len -= n;
        while queue.head != NONE
            && (queue.len == 0 || queue.front.wrapping_sub(head_at) >= chunk_len)
        {
            if queue.cursor == queue.head {
                queue.cursor = NONE;
            }
            queue.head = self.arena.give(queue.head);
            head_at = head_at.wrapping_add(chunk_len);
        }
        if queue.cursor == NONE {
            (queue.cursor, queue.cursor_at) = (queue.head, head_at);
        }
    }

    /// Gives an empty queue that is about to hold `len` bytes its first chunk, its minimum when
    /// that will do or nothing is lent; says where the first byte goes in it.
    fn begin(&mut self, queue: &mut TxQueue, len: usize) -> Option<usize> {
        let prefers_small = len <= self.arena.small_len() as usize;
        let small = if prefers_small { self.arena.take_small() } else { None };
        if let Some(chunk) = small {
            return Some(self.begin_small(queue, chunk));
        }
        if self.lendable(0) > 0 {
            if let Some(chunk) = self.arena.take() {
                // Positions within chunks follow from positions in the stream, so an empty queue
                // starts at a multiple of the length.
                queue.front = 0;
                (queue.head, queue.tail, queue.cursor, queue.cursor_at) = (chunk, chunk, chunk, 0);
                return Some(0);
            }
        }
        let chunk = if prefers_small { None } else { self.arena.take_small() }?;
        Some(self.begin_small(queue, chunk))
    }

    /// Puts bytes that fit a small chunk into the minimum of an empty queue; false when there is
    /// none.
    #[inline(always)]
    fn write_first(&mut self, queue: &mut TxQueue, bytes: &[u8]) -> bool {
        let Some(chunk) = self.arena.take_small() else { return false };
        self.begin_small(queue, chunk);
        let Some(room) = self.arena.small_mut(chunk, bytes.len()) else {
            debug_assert!(false, "a small chunk has room for as much as it is long");
            self.arena.give(chunk);
            return false;
        };
        room.copy_from_slice(bytes);
        queue.len = bytes.len() as u32;
        true
    }

    /// Gives an empty queue the small chunk `chunk`; says where its first byte goes.
    #[inline(always)]
    fn begin_small(&mut self, queue: &mut TxQueue, chunk: u32) -> usize {
        queue.front = self.arena.small_at();
        (queue.head, queue.tail, queue.cursor, queue.cursor_at) = (chunk, chunk, chunk, 0);
        queue.front as usize
    }

    #[cold]
    #[inline(never)]
    fn write_on(&mut self, queue: &mut TxQueue, bytes: &[u8], limit: u32) -> usize {
        let mut rest = &bytes[..bytes.len().min(limit.saturating_sub(queue.len) as usize)];
        let mut written = 0;
        while !rest.is_empty() {
            let mut at = if queue.len == 0 { 0 } else { self.fill(queue) };
            if queue.len == 0 {
                let Some(first) = self.begin(queue, rest.len()) else { break };
                at = first;
            } else if at == self.arena.chunk_len() as usize {
                if self.lendable(self.lent(queue)) == 0 {
                    break;
                }
                let Some(chunk) = self.arena.take() else { break };
                self.arena.link(queue.tail, chunk);
                queue.tail = chunk;
                at = 0;
            }
            let room = self.arena.chunk_from_mut(queue.tail, at);
            let n = rest.len().min(room.len());
            room[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            queue.len += n as u32;
            written += n;
        }
        written
    }

    /// The chunk with the byte `at` bytes behind the front, which the queue holds, and the position
    /// of the chunk's first byte.
    fn chunk_of(&self, queue: &TxQueue, at: u32) -> (u32, u32) {
        let chunk_len = self.arena.chunk_len();
        let position = queue.front.wrapping_add(at);
        let head_at = queue.front & !(chunk_len - 1);
        let (mut chunk, mut chunk_at) = (queue.cursor, queue.cursor_at);
        if position.wrapping_sub(head_at) < chunk_at.wrapping_sub(head_at) {
            // Behind the cursor: a retransmission. It is near the front most times.
            (chunk, chunk_at) = (queue.head, head_at);
        }
        while position.wrapping_sub(chunk_at) >= chunk_len {
            chunk = self.arena.next(chunk);
            chunk_at = chunk_at.wrapping_add(chunk_len);
        }
        (chunk, chunk_at)
    }

    #[cold]
    #[inline(never)]
    fn peek_on(&mut self, queue: &mut TxQueue, at: u32, out: &mut [u8]) -> usize {
        if at >= queue.len {
            return 0;
        }
        let chunk_len = self.arena.chunk_len();
        let wanted = out.len().min((queue.len - at) as usize);
        let (mut chunk, mut chunk_at) = self.chunk_of(queue, at);
        let mut offset = queue.front.wrapping_add(at).wrapping_sub(chunk_at) as usize;
        let mut done = 0;
        loop {
            let from = self.arena.chunk_from(chunk, offset);
            let n = from.len().min(wanted - done);
            out[done..done + n].copy_from_slice(&from[..n]);
            done += n;
            if done == wanted {
                break;
            }
            chunk = self.arena.next(chunk);
            chunk_at = chunk_at.wrapping_add(chunk_len);
            offset = 0;
        }
        (queue.cursor, queue.cursor_at) = (chunk, chunk_at);
        done
    }
}

/// Received bytes, in chunks, with holes.
pub struct RingRx {
    arena: Arena,
    /// For each chunk, the position of its first byte in its queue's stream.
    at: alloc::boxed::Box<[u32]>,
    limit: u32,
    reserve: u32,
}

/// What [`RingRx`] keeps per connection. Positions count as in [`TxQueue`].
#[derive(Debug)]
pub struct RxQueue {
    /// Position of the oldest unread byte.
    front: u32,
    unread: u32,
    /// The chunks in order of position; there may be gaps between them.
    head: u32,
    /// The chunk that was written last: the next write usually goes on there.
    cursor: u32,
    /// Position after the last byte held, early ones included.
    end: u32,
}

impl RingRx {
    /// An arena of `chunks` chunks of `chunk_len` bytes (rounded up to a power of two); one queue
    /// promises and holds at most `limit` bytes.
    pub fn new(chunks: u32, chunk_len: u32, limit: u32) -> RingRx {
        RingRx {
            arena: Arena::new(chunks, chunk_len),
            at: alloc::vec![0; chunks as usize].into_boxed_slice(),
            limit: limit.min(1 << 30),
            // Bytes that came too early must not take the last chunks: the bytes before them could
            // then never come (THREATS 19).
            reserve: chunks / 8,
        }
    }

    /// Chunks that no queue holds.
    pub fn free_chunks(&self) -> u32 {
        self.arena.available()
    }

    /// The chunk whose first byte has position `start`, made if need be. None when there is no
    /// memory for it.
    fn chunk_at(&mut self, queue: &mut RxQueue, start: u32, early: bool) -> Option<u32> {
        let base = queue.front & !(self.arena.chunk_len() - 1);
        let distance = |at: u32| at.wrapping_sub(base);
        let mut before = NONE;
        let mut here = queue.head;
        if queue.cursor != NONE && distance(self.at[queue.cursor as usize]) <= distance(start) {
            here = queue.cursor;
        }
        while here != NONE && distance(self.at[here as usize]) < distance(start) {
            before = here;
            here = self.arena.next(here);
        }
        if here == NONE || self.at[here as usize] != start {
            if early && self.arena.available() <= self.reserve {
                return None;
            }
            let chunk = self.arena.take()?;
            self.at[chunk as usize] = start;
            self.arena.link(chunk, here);
            if before == NONE {
                queue.head = chunk
            } else {
                self.arena.link(before, chunk)
            }
            here = chunk;
        }
        queue.cursor = here;
        Some(here)
    }

    /// Gives back the first chunk.
    fn drop_head(&mut self, queue: &mut RxQueue) {
        if queue.cursor == queue.head {
            queue.cursor = NONE;
        }
        queue.head = self.arena.give(queue.head);
    }
}

impl<B: Buf> RxStore<B> for RingRx {
    type Queue = RxQueue;

    fn open(&mut self, _token: u64) -> Option<RxQueue> {
        Some(RxQueue { front: 0, unread: 0, head: NONE, cursor: NONE, end: 0 })
    }

    fn close(&mut self, mut queue: RxQueue) {
        while queue.head != NONE {
            self.drop_head(&mut queue);
        }
    }

    fn write(&mut self, queue: &mut RxQueue, at: u32, buf: B) -> u32 {
        let chunk_len = self.arena.chunk_len();
        let ahead = queue.unread.saturating_add(at);
        let fits = self.limit.saturating_sub(ahead) as usize;
        let bytes = &buf.bytes()[..buf.bytes().len().min(fits)];
        let mut position = queue.front.wrapping_add(ahead);
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(chunk) = self.chunk_at(queue, position & !(chunk_len - 1), at > 0) else {
                break;
            };
            let room = self.arena.chunk_from_mut(chunk, (position & (chunk_len - 1)) as usize);
            let n = rest.len().min(room.len());
            room[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            position = position.wrapping_add(n as u32);
        }
        let kept = (bytes.len() - rest.len()) as u32;
        if kept > 0 && position.wrapping_sub(queue.front) > queue.end.wrapping_sub(queue.front) {
            queue.end = position;
        }
        kept
    }

    #[inline]
    fn advance(&mut self, queue: &mut RxQueue, n: u32) {
        queue.unread += n;
    }

    #[inline]
    fn unread(&self, queue: &RxQueue) -> u32 {
        queue.unread
    }

    fn room(&self, queue: &RxQueue, most: u32) -> u32 {
        let early = u64::from(queue.end.wrapping_sub(queue.front) - queue.unread);
        let free = u64::from(self.arena.available()) * u64::from(self.arena.chunk_len());
        u64::from(self.limit.min(most).saturating_sub(queue.unread)).min(free + early) as u32
    }

    fn largest_room(&self) -> u32 {
        let all = u64::from(self.arena.capacity()) * u64::from(self.arena.chunk_len());
        u64::from(self.limit).min(all) as u32
    }

    fn front<'a>(&'a self, queue: &'a RxQueue) -> &'a [u8] {
        if queue.unread == 0 {
            return &[];
        }
        let bytes = self
            .arena
            .chunk_from(queue.head, (queue.front & (self.arena.chunk_len() - 1)) as usize);
        &bytes[..bytes.len().min(queue.unread as usize)]
    }

    fn peek(&self, queue: &RxQueue, at: u32, out: &mut [u8]) -> usize {
        let chunk_len = self.arena.chunk_len();
        let base = queue.front & !(chunk_len - 1);
        let held = queue.end.wrapping_sub(queue.front).saturating_sub(at) as usize;
        let wanted = out.len().min(held);
        let (mut here, mut done) = (queue.head, 0);
        while here != NONE && done < wanted {
            let position = queue.front.wrapping_add(at).wrapping_add(done as u32);
            let (first, start) = (self.at[here as usize], position & !(chunk_len - 1));
            if first == start {
                let bytes = self.arena.chunk_from(here, (position & (chunk_len - 1)) as usize);
                let n = bytes.len().min(wanted - done);
                out[done..done + n].copy_from_slice(&bytes[..n]);
                done += n;
            } else if first.wrapping_sub(base) > start.wrapping_sub(base) {
                break;
            }
            here = self.arena.next(here);
        }
        done
    }

    fn consume(&mut self, queue: &mut RxQueue, n: u32) {
        let chunk_len = self.arena.chunk_len();
        let n = n.min(queue.unread);
        let base = queue.front & !(chunk_len - 1);
        queue.front = queue.front.wrapping_add(n);
        queue.unread -= n;
        let gone = queue.front.wrapping_sub(base) & !(chunk_len - 1);
        while queue.head != NONE && self.at[queue.head as usize].wrapping_sub(base) < gone {
            self.drop_head(queue);
        }
        if queue.front == queue.end {
            // Nothing is held, early bytes neither. The next byte begins a chunk.
            while queue.head != NONE {
                self.drop_head(queue);
            }
            (queue.front, queue.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests;
