//! TCP sequence numbers (RFC 9293 3.4): a circle of 2^32, so they have no order, only distances.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence number. It has no `Ord` on purpose: "less than" is only meant within half the circle,
/// and is spelled out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// `self` < `other` on the circle.
    #[inline]
    pub const fn lt(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self` ≤ `other` on the circle.
    #[inline]
    pub const fn le(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// `self` > `other` on the circle.
    #[inline]
    pub const fn gt(self, other: Seq) -> bool {
        other.lt(self)
    }

    /// `self` ≥ `other` on the circle.
    #[inline]
    pub const fn ge(self, other: Seq) -> bool {
        other.le(self)
    }

    /// Whether `start` ≤ `self` < `start + len`, correct for every `len`, 2^31 and more too.
    #[inline]
    pub const fn within(self, start: Seq, len: u32) -> bool {
        self.0.wrapping_sub(start.0) < len
    }

    /// How far `self` is ahead of `earlier`, modulo 2^32.
    #[inline]
    pub const fn since(self, earlier: Seq) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The later of the two.
    #[inline]
    pub const fn max(self, other: Seq) -> Seq {
        if self.lt(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    pub const fn min(self, other: Seq) -> Seq {
        if self.lt(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;
    #[inline]
    fn add(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;
    #[inline]
    fn sub(self, n: u32) -> Seq {
        Seq(self.0.wrapping_sub(n))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests;
