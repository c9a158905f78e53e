//! The hash of the small tables whose contents we choose ourselves: addresses, routes, sockets,
//! neighbours.
//!
//! It is keyed, so that strangers cannot aim, but it is no cryptographic hash. The flow table of
//! TCP, whose contents strangers choose, has a stronger one.

use clearway_wire::Addr;

/// The key.
#[derive(Clone, Copy)]
pub(crate) struct AddrHash {
    low: u64,
    high: u64,
}

impl AddrHash {
    /// A key out of the stack's secret; `use_` tells tables apart, so that what one betrays does
    /// not help against another.
    pub(crate) fn new(secret: &[u8; 32], use_: u64) -> AddrHash {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&secret[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let mut low = mixed(word(0) ^ use_, word(8) | 1);
        let mut high = mixed(word(16) ^ use_.rotate_left(32), word(24) | 1);
        // A key of all zeros would let everything collide; a secret of zeros is a mistake, but not
        // one to hang on.
        low |= 1 << 63;
        high |= 1 << 62;
        AddrHash { low, high }
    }

    /// The hash of an address in a scope (a table, an interface, a port).
    #[inline]
    pub(crate) fn of(self, scope: u64, addr: &Addr) -> u64 {
        let (first, second) = halves(addr);
        mixed(
            mixed(first ^ self.low, second ^ self.high),
            scope ^ self.low.rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15,
        )
    }

    /// The hash of two addresses in a scope.
    #[inline]
    pub(crate) fn of_pair(self, scope: u64, a: &Addr, b: &Addr) -> u64 {
        self.of(self.of(scope, a), b)
    }
}

#[inline]
fn halves(addr: &Addr) -> (u64, u64) {
    let all = u128::from_ne_bytes(*addr.octets());
    (all as u64, (all >> 64) as u64)
}

/// The 128-bit product folded to 64 bits: every bit of the result depends on every bit of both
/// factors.
#[inline]
fn mixed(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}
