//! A receive store that keeps the packet buffers themselves: nothing is copied, and the owner reads where the device wrote.
//!
//! ```text
//!   queue ─▶ [node]──▶[node]──▶[node]─ ─ hole ─ ─▶[node]──▶[node]      in order of position
//!             in order, unread    └ last in order   early
//! ```
//!
//! Memory is counted by what a buffer holds on to, not by its payload: a peer that sends single bytes cannot make a connection sit on more than
//! its limit (THREATS 19).

use alloc::boxed::Box;
use alloc::vec::Vec;

use clearway_pkt::Buf;

use super::RxStore;
use super::arena::NONE;

/// A buffer in a queue, or a place for one.
struct Node<B> {
    buf: Option<B>,
    /// Position of its first byte in the queue's stream.
    at: u32,
    /// The next one in the queue; for a free node, the next free one.
    next: u32,
}

/// Received bytes, in the buffers that they came in.
pub struct ChainRx<B> {
    nodes: Box<[Node<B>]>,
    free: u32,
    available: u32,
    limit: u32,
}

/// What [`ChainRx`] keeps per connection. Positions count bytes of the stream since it began, on a circle of 2^32.
#[derive(Debug)]
pub struct ChainQueue {
    /// Position of the oldest unread byte.
    front: u32,
    /// In-order bytes that were not consumed.
    unread: u32,
    /// Bytes that came early.
    early: u32,
    /// Memory that the buffers hold on to.
    footprint: u32,
    head: u32,
    tail: u32,
    /// The last node written, where the search for the next one's place begins.
    cursor: u32,
}

impl<B: Buf> ChainRx<B> {
    /// Room for `nodes` buffers in all queues; the buffers of one queue hold on to at most `limit` bytes.
    pub fn new(nodes: u32, limit: u32) -> ChainRx<B> {
        let chained: Vec<Node<B>> =
            (0..nodes).map(|i| Node { buf: None, at: 0, next: if i + 1 < nodes { i + 1 } else { NONE } }).collect();
        ChainRx {
            nodes: chained.into_boxed_slice(),
            free: if nodes > 0 { 0 } else { NONE },
            available: nodes,
            limit: limit.min(1 << 30),
        }
    }

    /// Buffers that could still be taken.
    pub fn free_nodes(&self) -> u32 {
        self.available
    }

    fn node(&self, i: u32) -> &Node<B> {
        &self.nodes[i as usize]
    }

    fn node_mut(&mut self, i: u32) -> &mut Node<B> {
        &mut self.nodes[i as usize]
    }

    /// Whether a buffer with this footprint is too much.
    ///
    /// Early bytes may take three quarters of the memory: the rest is for those that fill the holes before them, which could
    /// otherwise never come. Bytes in order are taken beyond the limit when the owner has nothing to read: what is held is
    /// early then, nobody can free it, and the stream would stand still for ever.
    fn is_refused(&self, queue: &ChainQueue, footprint: usize, early: bool) -> bool {
        let held = queue.footprint as usize + footprint;
        if early {
            self.available <= self.nodes.len() as u32 / 8 || held > (self.limit - self.limit / 4) as usize
        } else {
            held > self.limit as usize && queue.unread > 0
        }
    }

    /// The node after which one at `position` belongs; [`NONE`] for the very front.
    fn place(&self, queue: &ChainQueue, position: u32) -> u32 {
        let distance = |i: u32| self.node(i).at.wrapping_sub(queue.front) as i32;
        let wanted = position.wrapping_sub(queue.front) as i32;
        if queue.head == NONE || distance(queue.head) > wanted {
            return NONE;
        }
        if distance(queue.tail) <= wanted {
            return queue.tail;
        }
        let mut here = queue.head;
        if queue.cursor != NONE && distance(queue.cursor) <= wanted {
            here = queue.cursor;
        }
        // There is a node behind `position`, so the list does not end before it.
        while distance(self.node(here).next) <= wanted {
            here = self.node(here).next;
        }
        here
    }

    /// Puts node `i`, whose bytes lie at `position`, among those that the queue has.
    #[cold]
    #[inline(never)]
    fn link(&mut self, queue: &mut ChainQueue, i: u32, position: u32) {
        let before = self.place(queue, position);
        let next = if before == NONE { queue.head } else { self.node(before).next };
        self.node_mut(i).next = next;
        if before == NONE {
            queue.head = i;
        } else {
            self.node_mut(before).next = i;
        }
        if next == NONE {
            queue.tail = i;
        }
    }

    /// Takes the first node out of the queue and drops its buffer.
    fn drop_head(&mut self, queue: &mut ChainQueue) {
        let i = queue.head;
        let free = self.free;
        let node = self.node_mut(i);
        let footprint = node.buf.take().map_or(0, |buf| buf.footprint());
        let next = node.next;
        node.next = free;
        self.free = i;
        self.available += 1;
        queue.footprint -= footprint as u32;
        queue.head = next;
        if next == NONE {
            queue.tail = NONE;
        }
        if queue.cursor == i {
            queue.cursor = NONE;
        }
    }
}

impl<B: Buf> RxStore<B> for ChainRx<B> {
    type Queue = ChainQueue;

    fn open(&mut self, _token: u64) -> Option<ChainQueue> {
        Some(ChainQueue { front: 0, unread: 0, early: 0, footprint: 0, head: NONE, tail: NONE, cursor: NONE })
    }

    fn close(&mut self, mut queue: ChainQueue) {
        while queue.head != NONE {
            self.drop_head(&mut queue);
        }
    }

    #[inline]
    fn write(&mut self, queue: &mut ChainQueue, at: u32, buf: B) -> u32 {
        let len = buf.len() as u32;
        let kept = self.hold(queue, at, buf, 0, len);
        queue.early += kept;
        kept
    }

    #[inline(always)]
    fn append(&mut self, queue: &mut ChainQueue, buf: B) -> u32 {
        let len = buf.len() as u32;
        self.append_part(queue, buf, 0, len)
    }

    #[inline(always)]
    fn append_part(&mut self, queue: &mut ChainQueue, buf: B, front: u32, len: u32) -> u32 {
        let kept = self.hold(queue, 0, buf, front, len);
        queue.unread += kept;
        kept
    }

    #[inline]
    fn advance(&mut self, queue: &mut ChainQueue, n: u32) {
        queue.unread += n;
        queue.early = queue.early.saturating_sub(n);
    }

    #[inline]
    fn unread(&self, queue: &ChainQueue) -> u32 {
        queue.unread
    }

    /// Half of the free memory, because buffers are seldom full, and what came early, because it lies in the window too.
    fn room(&self, queue: &ChainQueue) -> u32 {
        self.limit.saturating_sub(queue.footprint) / 2 + queue.early
    }

    fn largest_room(&self) -> u32 {
        self.limit / 2
    }

    fn front<'a>(&'a self, queue: &'a ChainQueue) -> &'a [u8] {
        if queue.unread == 0 || queue.head == NONE {
            return &[];
        }
        let bytes = self.node(queue.head).buf.as_ref().map_or(&[][..], Buf::bytes);
        &bytes[..bytes.len().min(queue.unread as usize)]
    }

    #[inline(always)]
    fn consume(&mut self, queue: &mut ChainQueue, n: u32) {
        // What is usual: all is read, and it lay in one buffer.
        if n == queue.unread && n > 0 && queue.head == queue.tail && queue.early == 0 {
            let (i, free) = (queue.head, self.free);
            let node = self.node_mut(i);
            (node.buf, node.next) = (None, free);
            self.free = i;
            self.available += 1;
            queue.front = queue.front.wrapping_add(n);
            (queue.unread, queue.footprint) = (0, 0);
            (queue.head, queue.tail, queue.cursor) = (NONE, NONE, NONE);
            return;
        }
        self.consume_on(queue, n);
    }
}

impl<B: Buf> ChainRx<B> {
    /// Puts `len` bytes of the buffer, those behind the first `front`, into the queue, `at` bytes past the edge; says how many they are, none when they are refused.
    #[inline(always)]
    fn hold(&mut self, queue: &mut ChainQueue, at: u32, buf: B, front: u32, len: u32) -> u32 {
        let footprint = buf.footprint();
        if len == 0 || self.free == NONE || self.is_refused(queue, footprint, at > 0) {
            return 0;
        }
        let position = queue.front.wrapping_add(queue.unread).wrapping_add(at);
        let i = self.free;
        let node = self.node_mut(i);
        let free = core::mem::replace(&mut node.next, NONE);
        node.at = position;
        if node.buf.is_some() {
            never_there(&mut node.buf);
        }
        node.buf.get_or_insert(buf).narrow(front as usize, len as usize);
        self.free = free;
        self.available -= 1;
        if queue.head == NONE {
            (queue.head, queue.tail) = (i, i);
        } else {
            self.link(queue, i, position);
        }
        queue.cursor = i;
        queue.footprint += footprint as u32;
        len
    }

    #[cold]
    #[inline(never)]
    fn consume_on(&mut self, queue: &mut ChainQueue, n: u32) {
        let mut n = n.min(queue.unread);
        queue.unread -= n;
        queue.front = queue.front.wrapping_add(n);
        while n > 0 && queue.head != NONE {
            let node = self.node_mut(queue.head);
            let Some(buf) = node.buf.as_mut() else { break };
            let len = buf.bytes().len();
            if len > n as usize {
                // A buffer may hold on to less once it is cut; the queue counts what it holds on to now.
                let before = buf.footprint();
                buf.trim_front(n as usize);
                queue.footprint -= before.saturating_sub(buf.footprint()) as u32;
                node.at = node.at.wrapping_add(n);
                break;
            }
            n -= len as u32;
            self.drop_head(queue);
        }
    }
}

/// Drops what a free node held: nothing ever, but the compiler does not know.
#[cold]
#[inline(never)]
fn never_there<B>(buf: &mut Option<B>) {
    debug_assert!(false, "a free node holds a buffer");
    *buf = None;
}

#[cfg(test)]
mod tests;
