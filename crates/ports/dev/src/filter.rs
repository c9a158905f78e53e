//! Which frames somebody wants to see.

use std::ops::RangeInclusive;

use clearway_wire::{Cidr, Proto};

use crate::headers::Headers;

mod expression;

pub use expression::{Expression, FilterError};

/// Chooses frames; what is None fits every one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameFilter {
    /// Source or destination lies in this prefix.
    pub prefix: Option<Cidr>,
    /// The protocol above IP.
    pub proto: Option<Proto>,
    /// Source or destination port, of TCP or UDP.
    pub ports: Option<RangeInclusive<u16>>,
    /// What tcpdump's language says.
    pub expression: Option<Expression>,
}

impl FrameFilter {
    /// Whether it fits everything.
    pub fn is_open(&self) -> bool {
        *self == FrameFilter::default()
    }

    /// Whether a frame, or one of which these are the first bytes, is wanted. A later fragment has
    /// no ports, so it fits none.
    pub fn fits(&self, head: &[u8], ethernet: bool) -> bool {
        if self.is_open() {
            return true;
        }
        if self.expression.as_ref().is_some_and(|wanted| !wanted.fits(head, ethernet)) {
            return false;
        }
        if self.prefix.is_none() && self.proto.is_none() && self.ports.is_none() {
            return true;
        }
        let Some(headers) = Headers::of(head, ethernet) else { return false };
        let prefix = |prefix: &Cidr| prefix.contains(&headers.src) || prefix.contains(&headers.dst);
        let ports = |wanted: &RangeInclusive<u16>| {
            headers.ports.is_some_and(|(src, dst)| wanted.contains(&src) || wanted.contains(&dst))
        };
        self.prefix.as_ref().is_none_or(prefix)
            && self.proto.is_none_or(|proto| headers.proto == Some(proto))
            && self.ports.as_ref().is_none_or(ports)
    }
}

#[cfg(test)]
mod tests;
