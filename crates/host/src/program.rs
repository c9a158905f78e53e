//! A program: what entered a namespace once, and the processes that it forked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use clearway_proto::Table;
use clearway_shm::door::Token;

use crate::memory::Memory;
use crate::quota::{Limits, Quota};

/// What one program may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramLimits {
    /// Sessions at once, connections that wait to be accepted included.
    pub sessions: u32,
    /// Listeners at once.
    pub listeners: u32,
    /// Processes at once.
    pub processes: u32,
    /// UDP sockets at once.
    pub udp_sockets: u32,
    /// Bytes of shared memory: pages that were touched.
    pub memory: u64,
    /// Bytes of a receive FIFO when the program says nothing.
    pub rx_fifo: u32,
    /// Bytes of a transmit FIFO when the program says nothing.
    pub tx_fifo: u32,
    /// Bytes of a FIFO at most.
    pub max_fifo: u32,
}

impl Default for ProgramLimits {
    fn default() -> ProgramLimits {
        ProgramLimits {
            // What is left to others bounds each of them by itself.
            sessions: u32::MAX,
            listeners: u32::MAX,
            processes: 256,
            udp_sockets: u32::MAX,
            memory: u64::MAX,
            rx_fifo: 1 << 20,
            tx_fifo: 1 << 20,
            max_fifo: 64 << 20,
        }
    }
}

impl ProgramLimits {
    /// The same, where the namespace does not say otherwise.
    pub(crate) fn in_namespace(self, namespace: &NamespaceLimits) -> ProgramLimits {
        ProgramLimits {
            sessions: namespace.sessions.unwrap_or(self.sessions),
            listeners: namespace.listeners.unwrap_or(self.listeners),
            processes: namespace.processes.unwrap_or(self.processes),
            udp_sockets: namespace.udp_sockets.unwrap_or(self.udp_sockets),
            memory: namespace.memory.unwrap_or(self.memory),
            ..self
        }
    }

    /// As they are counted.
    pub(crate) fn counted(&self) -> Limits {
        [self.sessions, self.udp_sockets, self.listeners, self.processes]
    }
}

/// What a namespace says of the limits of each program in it; None: as for every program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NamespaceLimits {
    /// See [`ProgramLimits::sessions`].
    pub sessions: Option<u32>,
    /// See [`ProgramLimits::listeners`].
    pub listeners: Option<u32>,
    /// See [`ProgramLimits::processes`].
    pub processes: Option<u32>,
    /// See [`ProgramLimits::udp_sockets`].
    pub udp_sockets: Option<u32>,
    /// See [`ProgramLimits::memory`].
    pub memory: Option<u64>,
    /// What all programs in it may have together.
    pub together: TogetherLimits,
}

/// What all programs of a namespace may have together; None: as much as the host has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TogetherLimits {
    /// Sessions at once.
    pub sessions: Option<u32>,
    /// Listeners at once.
    pub listeners: Option<u32>,
    /// Processes at once.
    pub processes: Option<u32>,
    /// UDP sockets at once.
    pub udp_sockets: Option<u32>,
    /// Bytes of shared memory.
    pub memory: Option<u64>,
}

impl TogetherLimits {
    /// As they are counted.
    pub(crate) fn counted(&self) -> Limits {
        [self.sessions, self.udp_sockets, self.listeners, self.processes].map(|limit| limit.unwrap_or(u32::MAX))
    }
}

/// The smallest receive FIFO: a SYN-ACK promises a window of up to 65,535 bytes before its peer is known.
pub(crate) const MIN_RX_FIFO: u32 = 64 * 1024;

/// The smallest transmit FIFO.
const MIN_TX_FIFO: u32 = 4 * 1024;

/// A program, as its sessions and the keeper know it.
pub(crate) struct Program {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The user who began it. Only programs of one user share a port (SO_REUSEPORT).
    pub(crate) owner: u32,
    /// The namespace's own table; that of `interface` counts more.
    pub(crate) table: Table,
    pub(crate) interface: Option<String>,
    pub(crate) token: Token,
    /// Its connections may go round the stack where the other end agrees.
    pub(crate) cut_through: bool,
    pub(crate) limits: ProgramLimits,
    pub(crate) rx_fifo: u32,
    pub(crate) tx_fifo: u32,
    pub(crate) memory: Memory,
    pub(crate) quota: Arc<Quota>,
    /// It wrote something impossible, and is served no more.
    pub(crate) is_cut: AtomicBool,
    /// A listener of it, on whatever worker, waits for it to have fewer sessions.
    pub(crate) is_stalled: AtomicBool,
}

impl Program {
    /// For a listener that found no room: it is looked at when a session ends from now on. There may be room by now.
    pub(crate) fn stall(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
        // Either who looks for room next sees the session that ended, or who ended it sees the mark.
        fence(Ordering::SeqCst);
    }

    /// After a session ended: whether listeners must be looked at.
    pub(crate) fn take_stalled(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_stalled.load(Ordering::Relaxed) && self.is_stalled.swap(false, Ordering::AcqRel)
    }

    /// Whether a door leads to it; None: the main door, which leads everywhere.
    pub(crate) fn is_behind(&self, door_of: Option<&str>) -> bool {
        door_of.is_none_or(|namespace| namespace == self.namespace)
    }

    /// Bytes of a receive FIFO, when the program asked for so many; 0 is no wish.
    pub(crate) fn rx_len(&self, asked: u32) -> u32 {
        let len = if asked == 0 { self.rx_fifo } else { asked };
        len.max(MIN_RX_FIFO).min(self.limits.max_fifo.max(MIN_RX_FIFO))
    }

    /// Bytes of a transmit FIFO, likewise.
    pub(crate) fn tx_len(&self, asked: u32) -> u32 {
        let len = if asked == 0 { self.tx_fifo } else { asked };
        len.max(MIN_TX_FIFO).min(self.limits.max_fifo.max(MIN_TX_FIFO))
    }
}

/// A program as `show` tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramInfo {
    /// Its number.
    pub app: u32,
    /// Its name.
    pub name: String,
    /// Its namespace's name.
    pub namespace: String,
    /// Its processes: their numbers here, and their process ids at the kernel (0 when they are in a PID namespace that we do not see).
    pub processes: Vec<(u32, u32)>,
    /// Sessions now.
    pub sessions: u32,
    /// Listeners now.
    pub listeners: u32,
    /// Each segment's length in bytes, and how many of them are in use.
    pub segments: Vec<(u32, u64)>,
    /// Bytes of shared memory that are charged to it.
    pub memory: u64,
    /// Bytes of memory that the system has given for it, as far as it tells.
    pub resident: u64,
    /// How much of it it may use.
    pub memory_limit: u64,
    /// Sockets that stayed with the kernel: what the program did, why that was not Clearway's, and how often.
    pub stayed: Vec<(String, String, u64)>,
}
