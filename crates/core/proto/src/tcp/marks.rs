//! What stands on a connection: what was agreed on, what is due, how far things have come, and
//! bookkeeping, a bit each.

/// A set of marks on a connection: what receiving, timers and the owner want done, and what is so
/// for good.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(u32);

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Marks {
            $($(#[$doc])* pub(crate) const $name: Marks = Marks(1 << $bit);)*

            const NAMES: &'static [(&'static str,
                Marks)] = &[$((stringify!($name), Marks::$name),)*];
        }
    };
}

marks! {
    // ---- what was agreed on
    /// Timestamps are in use (RFC 7323 3).
    TS = 14;
    /// SACK is in use (RFC 2018).
    SACK = 15;
    /// ECN is in use (RFC 3168, RFC 9768): `RareStats::ecn` says how.
    ECN = 21;

    // ---- what is due
    /// There may be something to send.
    EMIT = 0;
    /// An ACK must leave in this turn.
    ACK_NOW = 1;
    /// Our SYN, or SYN and ACK, must leave (again): what a probe is to a connection that is not
    /// synchronized.
    SYN_DUE = 4;
    /// A reset must leave; then the record goes.
    RST_DUE = 3;
    /// A window probe or keepalive must leave: a segment that says nothing new and makes the peer
    /// answer.
    PROBE_DUE = 4;
    /// The sender waited long enough for the window to grow: whatever fits may leave (RFC 9293
    /// 3.8.6.2.1, the override timeout).
    FORCE = 5;
    /// The next ACK reports a duplicate, `RareStats::duplicate` (RFC 2883).
    DUPLICATE = 23;
    /// A write was cut short: tell the owner when there is room.
    WANT_ROOM = 17;
    /// The record goes at the end of this operation.
    GONE = 13;
    /// The flow moves on to TIME-WAIT at the end of this operation.
    TO_WAIT = 22;
    /// A deadline was set that may be nearer than the wheel knows.
    REARM = 30;

    // ---- how far things have come
    /// The owner has closed this side. Bytes end at `Snd::end`.
    SHUT = 7;
    /// Our FIN left at least once.
    FIN_SENT = 8;
    /// The peer's FIN was taken.
    PEER_FIN = 9;
    /// The peer's FIN came (`Rcv::fin`) and waits for what is missing before it.
    FIN_WAITS = 28;
    /// The owner is gone.
    ORPHAN = 10;
    /// The handshake is done, and nobody has accepted yet.
    PENDING = 11;
    /// The record is no longer in the flow table: segments do not reach it. It stays for its owner
    /// to read and close.
    DETACHED = 12;
    /// An in-order segment is missing: `reasm` is taken.
    HOLE = 19;
    /// There is urgent data to send that the peer has not acknowledged.
    SEND_URGENT = 20;

    // ---- bookkeeping
    /// Data is paced, or measured for an algorithm that goes by rates: `Conn::paced` is taken.
    PACED = 2;
    /// [`super::deadlines::Timer::Persist`] runs: nothing is in flight, and the window is too small
    /// to send (RFC 9293 3.8.6.1).
    PERSIST = 6;
    /// [`super::deadlines::Timer::Reordering`] runs.
    REORDERING = 16;
    /// It is known when what is in flight was sent: `Conn::sent` is taken.
    FLIGHTS = 25;
    /// A keepalive probe is out and was not answered.
    PROBING = 26;
    /// A round trip is being timed, from `Timing::seq`.
    TIMING = 18;
    /// The peer's window is what holds sending back (`rare.rs`).
    RWND_LIMITED = 24;
    /// The owner's send queue is what holds sending back: all of it is on its way, and it is full.
    SNDBUF_LIMITED = 27;
    /// Something waits for the peer, since `Times::stuck_since`.
    STUCK = 29;
    /// The wheel looks at the connection at `Conn::looked_at` or before.
    WATCHED = 31;
}

impl Marks {
    pub(crate) const NONE: Marks = Marks(0);

    #[inline]
    pub(crate) const fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    #[inline]
    pub(crate) const fn any(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub(crate) const fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn set(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, other: Marks) {
        self.0 &= !other.0;
    }

    #[inline]
    pub(crate) const fn intersection(self, other: Marks) -> Marks {
        Marks(self.0 & other.0)
    }

    #[inline]
    pub(crate) fn put(&mut self, other: Marks, on: bool) {
        if on { self.set(other) } else { self.clear(other) }
    }
}

impl core::fmt::Debug for Marks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set()
            .entries(Marks::NAMES.iter().filter(|(_, m)| self.has(*m)).map(|(n, _)| n))
            .finish()
    }
}

/// Marks that mean nothing once a connection is over.
pub(crate) const BUSY: Marks = Marks(
    Marks::EMIT.0
        | Marks::ACK_NOW.0
        | Marks::SYN_DUE.0
        | Marks::RST_DUE.0
        | Marks::PROBE_DUE.0
        | Marks::FORCE.0
        | Marks::PERSIST.0
        | Marks::GONE.0
        | Marks::TO_WAIT.0
        | Marks::HOLE.0
        | Marks::DUPLICATE.0
        | Marks::STUCK.0
        | Marks::FLIGHTS.0
        | Marks::PACED.0
        | Marks::REORDERING.0
        | Marks::WATCHED.0
        | Marks::REARM.0,
);
