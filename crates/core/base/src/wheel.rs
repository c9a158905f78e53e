//! A hierarchical timer wheel: millions of timers, armed, disarmed and expired in constant time
//! each, without ever walking those that are not due.
//!
//! Time is counted in ticks of 2^n nanoseconds. The hand stands at the last tick the wheel was
//! turned to. A timer lies on the level of the highest 6-bit digit in which its tick differs from
//! the hand, in the slot of that digit:
//!
//! ```text
//!              digit of the tick:   8   7   6   5   4   3   2   1   0
//!   hand                            0   0   0   0   0   3  17  60  12
//!   due this minute                 0   0   0   0   0   3  18  ·   ·    → level 2, slot 18
//!   due next tick                   0   0   0   0   0   3  17  60  13   → level 0, slot 13
//! ```
//!
//! So everything on a level is due before everything on the level above, the slots of a level are
//! due in order, and the lowest set bit of the lowest occupied level says what comes next, however
//! far away it is. When the hand reaches a slot above level 0, its timers are dealt out to the
//! levels below. Nine digits hold every instant: there is no horizon.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::list::{Link, Links, List};
use crate::time::Instant;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Enough digits for the 54 bits of a tick at the finest resolution.
const LEVELS: usize = 9;
/// The low bits of a node's key, which hold its slot: 9 × 64 slots fit in 10 bits.
const SLOT_BITS: u32 = 10;
/// No slot is being emptied.
const NONE: usize = usize::MAX;

/// The resolution a wheel has unless told otherwise, as a power of two of nanoseconds: 2^16 ns,
/// about 66 µs.
pub const DEFAULT_TICK_SHIFT: u32 = 16;
/// The finest resolution: 2^11 ns, about 2 µs.
pub const MIN_TICK_SHIFT: u32 = 11;
/// The coarsest resolution: 2^32 ns, about 4.3 s.
pub const MAX_TICK_SHIFT: u32 = 32;

/// A timer: its place in the list of its slot, its tick, its slot. 16 bytes.
#[derive(Clone, Copy)]
struct Node {
    link: Link,
    /// The tick it is due at, above; the index of its slot in the low [`SLOT_BITS`].
    key: u64,
}

impl Node {
    const OFF: Node = Node { link: Link::OFF, key: 0 };

    #[inline]
    fn tick(&self) -> u64 {
        self.key >> SLOT_BITS
    }

    #[inline]
    fn slot(&self) -> usize {
        self.key as usize & ((1 << SLOT_BITS) - 1)
    }
}

impl Links for Vec<Node> {
    #[inline]
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self[index as usize].link
    }
}

/// Timers known by an index that the owner chooses, below the capacity: usually that of a slab
/// entry. One timer for each index, 16 bytes for each index up to the highest ever armed.
///
/// A timer never fires before its deadline, and fires when the wheel is turned to the first tick at
/// or after it: at most one tick late. Timers fire in the order of their ticks. The instants handed
/// in must not go back.
///
/// *Re-arm lazily*: an owner that pushes a deadline back keeps the later one in its own entry and
/// leaves the wheel alone. When the wheel fires at the old deadline, the owner sees that it is
/// early and arms the new one. A deadline that comes nearer must be told to the wheel:
/// [`Wheel::arm_if_earlier`] does the one, and nothing in the other case.
pub struct Wheel {
    /// Grows to the highest index armed; room for all was reserved at the start.
    nodes: Vec<Node>,
    /// The timers of each slot, level by level.
    slots: Box<[List]>,
    /// For each level, which of its slots are occupied.
    occupied: [u64; LEVELS],
    /// Which levels have an occupied slot.
    levels: u32,
    /// The tick the wheel was turned to: timers at or before it have fired, or are in `emptying`.
    hand: u64,
    /// The slot that the hand has reached and whose timers are being handed out or dealt to lower
    /// levels, or `NONE`.
    emptying: usize,
    tick_shift: u32,
    capacity: u32,
    armed: u32,
}

impl Wheel {
    /// A wheel for timers of index 0 to `capacity - 1`, turned to `now`, at the default resolution.
    pub fn new(capacity: u32, now: Instant) -> Wheel {
        Wheel::with_tick_shift(capacity, DEFAULT_TICK_SHIFT, now)
    }

    /// As [`Wheel::new`], with ticks of 2^`tick_shift` nanoseconds.
    ///
    /// # Panics
    /// When `tick_shift` is not between [`MIN_TICK_SHIFT`] and [`MAX_TICK_SHIFT`], or `capacity` is
    /// `u32::MAX`.
    pub fn with_tick_shift(capacity: u32, tick_shift: u32, now: Instant) -> Wheel {
        assert!(
            (MIN_TICK_SHIFT..=MAX_TICK_SHIFT).contains(&tick_shift),
            "tick_shift is from 11 to 32"
        );
        assert!(capacity < u32::MAX, "a wheel holds at most u32::MAX - 1 timers");
        Wheel {
            nodes: Vec::with_capacity(capacity as usize),
            slots: vec![List::new(); LEVELS * SLOTS].into_boxed_slice(),
            occupied: [0; LEVELS],
            levels: 0,
            hand: now.as_nanos() >> tick_shift,
            emptying: NONE,
            tick_shift,
            capacity,
            armed: 0,
        }
    }

    /// How many timers are armed.
    #[inline]
    pub fn len(&self) -> u32 {
        self.armed
    }

    /// True when no timer is armed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// How many timers there can be; indices are below it.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// True when timer `index` is armed.
    #[inline]
    pub fn is_armed(&self, index: u32) -> bool {
        self.nodes.get(index as usize).is_some_and(|node| node.link.is_linked())
    }

    /// When timer `index` will fire: the deadline it was armed with, rounded up to a tick. `None`
    /// when it is not armed.
    #[inline]
    pub fn deadline(&self, index: u32) -> Option<Instant> {
        let node = self.nodes.get(index as usize)?;
        node.link.is_linked().then(|| self.instant(node.tick()))
    }

    /// Sets timer `index` to fire at `deadline`, whatever it was set to before. A deadline already
    /// past fires at the next tick, not in this turn, so that an owner who arms in the past cannot
    /// keep the turn from ending. [`Instant::NEVER`] disarms.
    ///
    /// # Panics
    /// When `index` is not below the capacity.
    #[inline]
    pub fn arm(&mut self, index: u32, deadline: Instant) {
        self.disarm(index);
        if deadline.is_set() {
            let tick = self.tick(deadline);
            self.put(index, tick);
        }
    }

    /// Makes timer `index` fire no later than `deadline`: arms it when it is not armed or armed for
    /// later, else does nothing. True when it was armed anew.
    ///
    /// # Panics
    /// When `index` is not below the capacity.
    #[inline]
    pub fn arm_if_earlier(&mut self, index: u32, deadline: Instant) -> bool {
        // The usual call: it fires early enough as it is. A tick is never before the whole ticks of
        // its instant.
        let whole = deadline.as_nanos() >> self.tick_shift;
        if self
            .nodes
            .get(index as usize)
            .is_some_and(|node| node.link.is_linked() && node.tick() <= whole)
        {
            return false;
        }
        self.bring_forward(index, deadline)
    }

    fn bring_forward(&mut self, index: u32, deadline: Instant) -> bool {
        if !deadline.is_set() {
            return false;
        }
        let tick = self.tick(deadline);
        if self.is_armed(index) {
            if self.nodes[index as usize].tick() <= tick {
                return false;
            }
            self.take(index);
        }
        self.put(index, tick);
        true
    }

    /// Stops timer `index`; false when it was not armed.
    #[inline]
    pub fn disarm(&mut self, index: u32) -> bool {
        let armed = self.is_armed(index);
        if armed {
            self.take(index);
        }
        armed
    }

    /// The next timer that is due at `now`, disarmed; `None` when no more are due. Call it until it
    /// returns `None`.
    #[inline]
    pub fn next_expired(&mut self, now: Instant) -> Option<u32> {
        let mut work = u64::MAX;
        self.next_expired_within(now, &mut work)
    }

    /// As [`Wheel::next_expired`], within `work`: each timer handed out or moved to another slot
    /// takes one from it, and at zero it returns `None` though more may be due. The next call
    /// continues there, and until then [`Wheel::next_deadline`] is in the past. So a million timers
    /// of the same hour do not hold up the packets of one turn.
    #[inline]
    pub fn next_expired_within(&mut self, now: Instant, work: &mut u64) -> Option<u32> {
        let to = now.as_nanos() >> self.tick_shift;
        // The usual call: the turn is shorter than a tick, and nothing is left over.
        if to <= self.hand && self.emptying == NONE {
            return None;
        }
        self.turn(to, work)
    }

    /// No timer is due before this: a caller may sleep so long. It is exact for the near future and
    /// may be early for later timers (the wheel then has timers to deal out, and names a later
    /// instant after that). [`Instant::NEVER`] when nothing is armed.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        if self.emptying != NONE && !self.slots[self.emptying].is_empty() {
            return self.instant(self.hand);
        }
        match self.next_slot() {
            Some((_, start)) => self.instant(start),
            None => Instant::NEVER,
        }
    }

    /// Turns the hand towards tick `to`, until a timer is due, the work is spent or the tick is
    /// reached.
    fn turn(&mut self, to: u64, work: &mut u64) -> Option<u32> {
        loop {
            while self.emptying != NONE {
                let Some(index) = self.slots[self.emptying].front() else {
                    self.emptying = NONE;
                    break;
                };
                if *work == 0 {
                    return None;
                }
                *work -= 1;
                self.take(index);
                let tick = self.nodes[index as usize].tick();
                if tick <= self.hand {
                    return Some(index);
                }
                self.put(index, tick);
            }
            match self.next_slot() {
                Some((slot, start)) if start <= to => {
                    self.hand = start;
                    self.emptying = slot;
                }
                _ => {
                    // No slot begins between the hand and `to`, so every timer keeps its level and
                    // slot.
                    self.hand = self.hand.max(to);
                    return None;
                }
            }
        }
    }

    /// The occupied slot that is due first, and the tick at which it begins. Not to be asked while
    /// a slot is being emptied, except for a lower bound: that slot is before all others.
    #[inline]
    fn next_slot(&self) -> Option<(usize, u64)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let digit = self.occupied[level as usize].trailing_zeros();
        let shift = level * DIGIT_BITS;
        let above = self.hand >> shift >> DIGIT_BITS << DIGIT_BITS;
        Some((level as usize * SLOTS + digit as usize, (above | u64::from(digit)) << shift))
    }

    /// Puts timer `index`, which is in no slot, where `tick` belongs; `tick` is after the hand.
    #[inline]
    fn put(&mut self, index: u32, tick: u64) {
        debug_assert!(tick > self.hand);
        if index as usize >= self.nodes.len() {
            self.grow(index);
        }
        let level = (63 - (tick ^ self.hand).leading_zeros()) / DIGIT_BITS;
        let digit = tick >> (level * DIGIT_BITS) & (SLOTS as u64 - 1);
        let slot = level as usize * SLOTS + digit as usize;
        self.nodes[index as usize].key = tick << SLOT_BITS | slot as u64;
        self.slots[slot].push_back(&mut self.nodes, index);
        self.occupied[level as usize] |= 1 << digit;
        self.levels |= 1 << level;
        self.armed += 1;
    }

    /// Takes timer `index`, which is armed, out of its slot.
    #[inline]
    fn take(&mut self, index: u32) {
        let slot = self.nodes[index as usize].slot();
        self.slots[slot].remove(&mut self.nodes, index);
        self.armed -= 1;
        if self.slots[slot].is_empty() {
            let level = slot / SLOTS;
            self.occupied[level] &= !(1 << (slot % SLOTS));
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// Makes nodes up to `index`, in the room reserved for them.
    #[cold]
    fn grow(&mut self, index: u32) {
        assert!(index < self.capacity, "timer {index} of a wheel for {}", self.capacity);
        self.nodes.resize(index as usize + 1, Node::OFF);
    }

    /// The first tick at or after `deadline` that the hand has not reached.
    #[inline]
    fn tick(&self, deadline: Instant) -> u64 {
        let ns = deadline.as_nanos();
        let whole = ns >> self.tick_shift;
        let up = u64::from(whole << self.tick_shift != ns);
        (whole + up).max(self.hand + 1)
    }

    /// When `tick` begins.
    #[inline]
    fn instant(&self, tick: u64) -> Instant {
        Instant::from_nanos(tick.saturating_mul(1 << self.tick_shift))
    }
}

#[cfg(test)]
mod tests;
