//! Connections as the load generator sees them.

use clearway_base::Instant;
use clearway_wire::Endpoint;

/// What a connection is known by: its number on this core, and its place among those that are
/// asked, if it is one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Which connection, counted from 0.
    pub conn: u32,
    /// Its place among the active ones; [`Token::IDLE`] when it only exists.
    pub slot: u32,
}

impl Token {
    /// The place of those that have none.
    pub const IDLE: u32 = u32::MAX;

    /// As one number, for owners of connections that keep numbers.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.conn)
    }

    /// What [`Token::to_bits`] made into `bits`.
    #[inline]
    pub fn from_bits(bits: u64) -> Token {
        Token { conn: bits as u32, slot: (bits >> 32) as u32 }
    }
}

/// Why a connection could not be begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The endpoint that it was to come from is still in use; another one may be free.
    Taken,
    /// There will be no other answer.
    Failed(String),
}

/// Makes connections to one server and sends on them; what happens to them is told to the
/// [`Client`](crate::Client) by whoever owns both. Datagram sockets are connections that are open
/// at once.
pub trait Net {
    /// Names a connection.
    type Id: Copy + Eq;

    /// Begins a connection from `from`, or from wherever the owner likes.
    fn open(
        &mut self,
        now: Instant,
        token: Token,
        from: Option<Endpoint>,
    ) -> Result<Self::Id, OpenError>;

    /// Sends; answers how many bytes were taken. When it is fewer than all, the client is told once
    /// there is room. Of a datagram all or nothing is taken.
    fn send(&mut self, token: Token, id: Self::Id, bytes: &[u8]) -> usize;

    /// Ends our side behind what was sent.
    fn shutdown(&mut self, id: Self::Id);

    /// Closes: what was sent still goes out.
    fn close(&mut self, id: Self::Id);

    /// Ends it at once, with a reset where there is such a thing.
    fn abort(&mut self, id: Self::Id);
}
