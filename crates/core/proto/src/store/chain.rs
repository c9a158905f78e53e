//! A receive store that keeps the packet buffers themselves: nothing is copied, and the owner reads
//! where the device wrote.
//!
//! ```text
//!   queue ─▶ [node]──▶[node]──▶[node]─ ─ hole ─ ─▶[node]──▶[node]      in order of position
//!             in order, unread    └ last in order   early
//! ```
//!
//! Memory is counted by what a buffer holds on to, not by its payload: a peer that sends single
//! bytes cannot make a connection sit on more than its limit (THREATS 19).
//!
//! The buffers are those that devices receive into, so what queues hold on to is lent
//! ([`super::lending`]), and some are always left to the devices. A queue that may hold no more of
//! them has a minimum of its own, into which bytes are copied. It holds one piece of the stream at
//! a time.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use clearway_pkt::Buf;

use super::arena::NONE;
use super::lending::Lending;
use super::traits::{Minimum, RxStore};

/// Says of the buffers that are as long as this one how many are free, and how many there are.
pub type Pots = Box<dyn Fn(usize) -> (usize, usize)>;

/// What one part in so many of the buffers of a kind is left to the devices.
const FOR_DEVICES: u64 = 8;

/// What a queue may hold without a check of how much others hold, as long as more than a
/// quarter of all places are free.
const UNCHECKED_BYTES: u32 = 8 * 1024;

/// What buffers are taken to hold on to when nobody says what there are.
const USUAL: u64 = 2 * 1024;

/// No buffer is longer.
const LONGEST: u64 = 128 * 1024;

/// A buffer in a queue, or a place for one. Those behind the places for buffers stand for a queue's
/// minimum, whose bytes lie in [`Own`].
struct Node<B> {
    buf: Option<B>,
    /// Position of its first byte in the queue's stream.
    at: u32,
    /// The next one in the queue; for a free node, the next free one.
    next: u32,
}

/// The minimums.
struct Own {
    bytes: Box<[u8]>,
    /// Where the bytes of each begin and how many there are.
    spans: Box<[(u16, u16)]>,
    len: u16,
    /// The node of a minimum that no queue uses.
    free: u32,
}

/// Received bytes, in the buffers that they came in.
pub struct ChainRx<B> {
    /// Places for buffers, and behind them those of minimums, made when they are first used.
    nodes: Vec<Node<B>>,
    free: u32,
    available: u32,
    limit: u32,
    /// With so few free places each buffer is thought about, and so it is in a queue that holds
    /// more than `unchecked`.
    low: u32,
    unchecked: u32,
    places: u32,
    own: Own,
    pots: Option<Pots>,
    /// How many bytes an empty queue promises to take: half of the limit, because buffers are
    /// seldom full, and less than that while places or buffers are few.
    window: u32,
}

/// What [`ChainRx`] keeps per connection. Positions count bytes of the stream since it began, on a
/// circle of 2^32.
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
    /// The node of its minimum, when it uses it.
    own: u32,
}

impl<B: Buf> ChainRx<B> {
    /// Room for `nodes` buffers in all queues; the buffers of one queue hold on to at most `limit`
    /// bytes. Whoever comes first may have everything: for owners who trust all their peers.
    pub fn new(nodes: u32, limit: u32) -> ChainRx<B> {
        let limit = limit.min(1 << 30);
        ChainRx {
            low: 0,
            unchecked: limit,
            ..ChainRx::shared(nodes, limit, Minimum { queues: 0, len: 0 }, None)
        }
    }

    /// The same for owners with strangers as peers: buffers are lent, and each queue has a minimum
    /// besides. `pots` says what buffers there are, when they are of more than one kind or others
    /// use them too.
    pub fn shared(nodes: u32, limit: u32, minimum: Minimum, pots: Option<Pots>) -> ChainRx<B> {
        let limit = limit.min(1 << 30);
        let mut all = Vec::with_capacity(nodes as usize + minimum.queues as usize);
        all.extend((0..nodes).map(|i| Node {
            buf: None,
            at: 0,
            next: if i + 1 < nodes { i + 1 } else { NONE },
        }));
        let len = u16::try_from(minimum.len).unwrap_or(u16::MAX);
        let own = Own {
            bytes: vec![0; minimum.queues as usize * usize::from(len)].into_boxed_slice(),
            spans: vec![(0, 0); minimum.queues as usize].into_boxed_slice(),
            len,
            free: NONE,
        };
        ChainRx {
            nodes: all,
            free: if nodes > 0 { 0 } else { NONE },
            available: nodes,
            limit,
            low: nodes / 4,
            unchecked: limit.min(UNCHECKED_BYTES),
            places: nodes,
            own,
            pots,
            window: limit / 2,
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
    /// Early bytes may take three quarters of the memory: the rest is for those that fill the holes
    /// before them, which could otherwise never come. Bytes in order are taken beyond the limit
    /// when the owner has nothing to read: what is held is early then, nobody can free it, and the
    /// stream would stand still for ever.
    fn is_refused(&mut self, queue: &ChainQueue, footprint: usize, early: bool) -> bool {
        let held = queue.footprint as usize + footprint;
        if early {
            if self.available <= self.places / 8 || held > (self.limit - self.limit / 4) as usize {
                return true;
            }
        } else if held > self.limit as usize && queue.unread > 0 {
            return true;
        }
        if self.low == 0 {
            return false;
        }
        let (lending, free, unit) = self.pot(footprint);
        if lending.is_short(free) || self.available <= self.low {
            self.window = self.window.min(self.promise() / 2);
        }
        lending.room(free, (u64::from(queue.footprint)).div_ceil(unit)) == 0
    }

    /// By which rule buffers of this length are lent, how many are free, and how much each holds on
    /// to.
    fn pot(&self, footprint: usize) -> (Lending, u64, u64) {
        let (free, all, unit) = match &self.pots {
            Some(pots) => {
                let (free, all) = pots(footprint);
                (
                    free.min(self.available as usize) as u64,
                    all as u64,
                    (footprint as u64).clamp(USUAL, LONGEST),
                )
            }
            None => (self.available.into(), self.places.into(), USUAL),
        };
        let kept = all / FOR_DEVICES;
        // Nobody may have more than half, however large the limit: others find something, at once.
        let limit = u64::from(self.limit).div_ceil(unit.max(1)).min(((all - kept) / 2).max(1));
        (Lending::new(all - kept, limit), free.saturating_sub(kept), unit.max(1))
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
        let is_own = i == queue.own;
        let free = if is_own { self.own.free } else { self.free };
        let node = self.node_mut(i);
        let footprint = node.buf.take().map_or(0, |buf| buf.footprint());
        let next = core::mem::replace(&mut node.next, free);
        if is_own {
            (self.own.free, queue.own) = (i, NONE);
        } else {
            self.free = i;
            self.available += 1;
        }
        queue.footprint -= footprint as u32;
        queue.head = next;
        if next == NONE {
            queue.tail = NONE;
        }
        if queue.cursor == i {
            queue.cursor = NONE;
        }
    }

    /// Copies as many of the next bytes in order as the queue's minimum takes; says how many.
    fn keep_own(&mut self, queue: &mut ChainQueue, bytes: &[u8]) -> u32 {
        let most = usize::from(self.own.len);
        if queue.own == NONE {
            let Some(i) = self.take_own() else { return 0 };
            queue.own = i;
            self.own.spans[(i - self.places) as usize] = (0, 0);
            let position = queue.front.wrapping_add(queue.unread);
            let node = self.node_mut(i);
            (node.at, node.next) = (position, NONE);
            if queue.head == NONE {
                (queue.head, queue.tail) = (i, i);
            } else {
                self.link(queue, i, position);
            }
            queue.cursor = i;
        } else if queue.own != queue.tail || queue.early > 0 {
            // Something stands behind it: its bytes would not lie together with these.
            return 0;
        }
        let at = (queue.own - self.places) as usize;
        let (start, len) = self.own.spans[at];
        let end = usize::from(start + len);
        let n = bytes.len().min(most - end);
        self.own.bytes[at * most + end..at * most + end + n].copy_from_slice(&bytes[..n]);
        self.own.spans[at].1 += n as u16;
        n as u32
    }

    /// The node of a minimum that no queue uses.
    fn take_own(&mut self) -> Option<u32> {
        let i = self.own.free;
        if i != NONE {
            self.own.free = self.node(i).next;
            return Some(i);
        }
        if self.nodes.len() - self.places as usize >= self.own.spans.len() {
            return None;
        }
        // There is room: it was reserved at start.
        self.nodes.push(Node { buf: None, at: 0, next: NONE });
        Some(self.nodes.len() as u32 - 1)
    }

    /// The bytes that node `i` holds.
    #[inline]
    fn bytes(&self, i: u32) -> &[u8] {
        match &self.node(i).buf {
            Some(buf) => buf.bytes(),
            None => self.own_bytes(i),
        }
    }

    #[cold]
    fn own_bytes(&self, i: u32) -> &[u8] {
        let at = (i - self.places) as usize;
        let (start, len) = self.own.spans[at];
        let start = at * usize::from(self.own.len) + usize::from(start);
        &self.own.bytes[start..start + usize::from(len)]
    }
}

impl<B: Buf> RxStore<B> for ChainRx<B> {
    type Queue = ChainQueue;

    fn open(&mut self, _token: u64) -> Option<ChainQueue> {
        Some(ChainQueue {
            front: 0,
            unread: 0,
            early: 0,
            footprint: 0,
            head: NONE,
            tail: NONE,
            cursor: NONE,
            own: NONE,
        })
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

    /// Half of the free memory, because buffers are seldom full, and what came early, because it
    /// lies in the window too.
    #[inline]
    fn room(&self, queue: &ChainQueue, most: u32) -> u32 {
        self.window.min(most).saturating_sub(queue.footprint / 2) + queue.early
    }

    fn largest_room(&self) -> u32 {
        self.limit / 2
    }

    fn front<'a>(&'a self, queue: &'a ChainQueue) -> &'a [u8] {
        if queue.unread == 0 || queue.head == NONE {
            return &[];
        }
        let bytes = self.bytes(queue.head);
        &bytes[..bytes.len().min(queue.unread as usize)]
    }

    #[inline(always)]
    fn consume(&mut self, queue: &mut ChainQueue, n: u32) {
        // What is usual: all is read, and it lay in one buffer. A queue that holds nothing, or its
        // minimum alone, holds on to none.
        if n == queue.unread && queue.footprint > 0 && queue.head == queue.tail && queue.early == 0
        {
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

    fn peek(&self, queue: &ChainQueue, at: u32, out: &mut [u8]) -> usize {
        let (mut here, mut done) = (queue.head, 0);
        while here != NONE && done < out.len() {
            // How far the wanted byte lies behind the first one of this buffer.
            let into = queue
                .front
                .wrapping_add(at)
                .wrapping_add(done as u32)
                .wrapping_sub(self.node(here).at) as i32;
            if into < 0 {
                break;
            }
            let bytes = self.bytes(here).get(into as usize..).unwrap_or(&[]);
            let n = bytes.len().min(out.len() - done);
            out[done..done + n].copy_from_slice(&bytes[..n]);
            done += n;
            here = self.node(here).next;
        }
        done
    }

    fn is_scarce(&self) -> bool {
        self.window < self.limit / 2
    }

    fn relax(&mut self) {
        self.window = if self.is_short() || self.available <= self.low {
            self.promise() / 2
        } else {
            self.limit / 2
        };
    }

    fn borrowed(&self, queue: &ChainQueue) -> u64 {
        queue.footprint.into()
    }

    fn is_short(&self) -> bool {
        let is_short = |footprint| {
            let (lending, free, _) = self.pot(footprint);
            lending.is_short(free)
        };
        self.low > 0 && (is_short(0) || is_short(usize::MAX))
    }
}

impl<B: Buf> ChainRx<B> {
    /// What queues may promise while buffers are few: what the scarcer kind allows, and at least
    /// what the minimum takes.
    #[cold]
    fn promise(&self) -> u32 {
        let cap = |footprint| {
            let (lending, free, unit) = self.pot(footprint);
            lending.cap(free).saturating_mul(unit)
        };
        let most = cap(0).min(cap(usize::MAX)).min(self.limit.into()) as u32;
        most.max(2 * u32::from(self.own.len))
    }

    /// Puts `len` bytes of the buffer, those behind the first `front`, into the queue, `at` bytes
    /// past the edge; says how many they are, none when they are refused.
    #[inline(always)]
    fn hold(&mut self, queue: &mut ChainQueue, at: u32, buf: B, front: u32, len: u32) -> u32 {
        let footprint = buf.footprint();
        if len == 0 {
            return 0;
        }
        if self.available <= self.low
            || at > 0
            || queue.footprint + footprint as u32 > self.unchecked
        {
            return self.hold_in_need(queue, at, buf, front, len);
        }
        self.put(queue, at, buf, front, len)
    }

    /// As [`ChainRx::hold`], when it has to be thought about.
    #[cold]
    #[inline(never)]
    fn hold_in_need(
        &mut self,
        queue: &mut ChainQueue,
        at: u32,
        buf: B,
        front: u32,
        len: u32,
    ) -> u32 {
        if self.free != NONE && !self.is_refused(queue, buf.footprint(), at > 0) {
            return self.put(queue, at, buf, front, len);
        }
        if at > 0 {
            return 0;
        }
        self.keep_own(queue, &buf.bytes()[front as usize..(front + len) as usize])
    }

    /// Puts the bytes into the queue; there is a free place.
    #[inline(always)]
    fn put(&mut self, queue: &mut ChainQueue, at: u32, buf: B, front: u32, len: u32) -> u32 {
        let footprint = buf.footprint();
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
            let len = self.bytes(queue.head).len();
            if len > n as usize {
                self.trim_head(queue, n);
                break;
            }
            n -= len as u32;
            self.drop_head(queue);
        }
    }

    /// Takes the oldest `n` bytes off the first node, which holds more.
    fn trim_head(&mut self, queue: &mut ChainQueue, n: u32) {
        let places = self.places;
        let node = self.node_mut(queue.head);
        node.at = node.at.wrapping_add(n);
        if let Some(buf) = &mut node.buf {
            // A buffer may hold on to less once it is cut; the queue counts what it holds on to
            // now.
            let before = buf.footprint();
            buf.trim_front(n as usize);
            queue.footprint -= before.saturating_sub(buf.footprint()) as u32;
        } else {
            let (start, len) = &mut self.own.spans[(queue.head - places) as usize];
            (*start, *len) = (*start + n as u16, *len - n as u16);
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
