//! What came back of each flow: in order, late, twice, or not at all.

/// How a sequence number stands to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The next one.
    Next,
    /// So many are missing before it.
    After(u32),
    /// It was overtaken by later ones (RFC 4737 3: its number is smaller than the next expected).
    Late,
    /// It was here already.
    Again,
}

/// Numbers below the next expected of which is known whether they came. One that is older counts as
/// late.
pub const WINDOW: u32 = 64;

#[derive(Clone, Copy, Default, Debug)]
struct Flow {
    next: u32,
    /// Bit n stands for the number n + 1 below `next`.
    seen: u64,
}

/// The state of every flow, 16 bytes each, bound at the start.
#[derive(Clone, Debug)]
pub struct FlowTable {
    flows: Box<[Flow]>,
}

impl FlowTable {
    /// So many flows. What is never used takes no memory: the system gives zeroed pages on first
    /// touch.
    pub fn new(flows: u32) -> FlowTable {
        FlowTable { flows: vec![Flow::default(); flows as usize].into_boxed_slice() }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.flows.fill(Flow::default());
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.flows.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Notes that number `seq` of a flow came; None for a flow that is not there.
    #[inline]
    pub fn note(&mut self, flow: u32, seq: u32) -> Option<Order> {
        let flow = self.flows.get_mut(flow as usize)?;
        let ahead = seq.wrapping_sub(flow.next) as i32;
        if ahead >= 0 {
            let steps = ahead as u32 + 1;
            flow.seen = flow.seen.checked_shl(steps).unwrap_or(0) | 1;
            flow.next = seq.wrapping_add(1);
            return Some(if ahead == 0 { Order::Next } else { Order::After(ahead as u32) });
        }
        let bit = ahead.unsigned_abs() - 1;
        if bit >= WINDOW {
            return Some(Order::Late);
        }
        let again = flow.seen >> bit & 1 != 0;
        flow.seen |= 1 << bit;
        Some(if again { Order::Again } else { Order::Late })
    }
}

#[cfg(test)]
mod tests;
