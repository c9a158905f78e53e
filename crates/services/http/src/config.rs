//! What is served, and how long things may take.

use std::path::PathBuf;

use clearway_base::Duration;

/// What to serve.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Length of the fixed page in bytes; it answers every path when there is no root.
    pub page_len: u64,
    /// A folder whose files are served.
    pub root: Option<PathBuf>,
    /// For tests of transfers: PUT and POST to any path answer with length and SHA-256 of the body,
    /// and `GET /random/BYTES?seed=NUMBER` with that many bytes of the sequence in
    /// [`crate::body::random`].
    pub sink: bool,
    /// How long things may take.
    pub timeouts: Timeouts,
}

/// How long each part of a conversation may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the first byte of a head to its last (408 after that).
    pub head: Duration,
    /// Between a response and the next request (a close without words).
    pub idle: Duration,
    /// Without any progress in a body, either way.
    pub stall: Duration,
    /// For the peer to read an answer that ends the connection, while its further bytes are thrown
    /// away (RFC 9112 9.6).
    pub linger: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            linger: Duration::from_secs(2),
        }
    }
}
