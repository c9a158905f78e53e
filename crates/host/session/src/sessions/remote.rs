//! What stands on one worker for sessions of another: forwarders of datagrams, and listeners.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use clearway_base::{Duration, Handle};
use clearway_proto::{BindId, ListenerId, UdpId};
use clearway_shm::attach_socket::{SessionId, SocketOptions};
use clearway_shm::layout::DatagramHead;

use crate::program::Program;

/// In the word of one of these, where that of a session has nothing: slots are 24 bits.
pub(super) const MARK: u64 = 1 << 31;

/// Forwarders on one worker at most.
pub(super) const MAX_FORWARDERS: u32 = 1 << 16;

/// A bound port of a session on another worker.
pub(super) struct Forwarder {
    pub(super) home: SessionId,
    pub(super) program: Arc<Program>,
    /// None: somebody else's socket stands in the way here.
    pub(super) socket: Option<UdpId>,
    pub(super) road: Arc<Road>,
}

/// What home and forwarders know of datagrams between them.
#[derive(Default)]
pub(super) struct Road {
    /// Bytes on their way.
    pub(super) bytes: AtomicU32,
    /// Datagrams that found no room on the way, or at its end.
    pub(super) lost: AtomicU64,
}

impl Road {
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A datagram on its way home.
pub(super) struct Forwarded {
    pub(super) head: DatagramHead,
    pub(super) from: SocketAddr,
    pub(super) payload: Vec<u8>,
    /// When it came; zero: nobody asks.
    pub(super) arrived: Duration,
}

/// The forwarder that a word of the stack's means.
pub(super) fn forwarder_of(token: u64) -> Option<Handle<Forwarder>> {
    if token & MARK == 0 { None } else { Handle::from_bits(token & !MARK) }
}

/// Remote listeners on one worker at most.
pub(super) const MAX_REMOTE_LISTENERS: u32 = 1 << 16;

/// A listener of another worker.
pub(super) struct RemoteListener {
    pub(super) home: SessionId,
    pub(super) program: Arc<Program>,
    /// None: somebody else's listener stands in the way here.
    pub(super) listener: Option<ListenerId>,
    pub(super) bind: BindId,
    pub(super) v6: bool,
    pub(super) options: SocketOptions,
    pub(super) backlog: u32,
    /// Connections from here that no process has claimed.
    pub(super) waiting: u32,
}

/// The remote listener that a word of the stack's means.
pub(super) fn remote_listener_of(token: u64) -> Option<Handle<RemoteListener>> {
    if token & MARK == 0 { None } else { Handle::from_bits(token & !MARK) }
}
