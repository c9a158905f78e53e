//! A program: what entered a namespace once, and the processes that it forked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_proto::Table;
use clearway_shm::attach_socket::Token;

use crate::memory::Memory;
use crate::quota::{Limits, Quota};
use crate::traffic::Traffic;

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
            processes: u32::MAX,
            udp_sockets: u32::MAX,
            memory: u64::MAX,
            rx_fifo: 1 << 20,
            tx_fifo: 1 << 20,
            max_fifo: 64 << 20,
        }
    }
}

impl ProgramLimits {
    /// As they are counted.
    pub fn counted(&self) -> Limits {
        [self.sessions, self.udp_sockets, self.listeners, self.processes]
    }
}

/// The smallest receive FIFO: a SYN-ACK promises a window of up to 65,535 bytes before its peer is
/// known.
pub const MIN_RX_FIFO: u32 = 64 * 1024;

/// The smallest transmit FIFO.
const MIN_TX_FIFO: u32 = 4 * 1024;

/// A program, as its sessions and the supervisor know it.
pub struct Program {
    /// Its number; never given to another one.
    pub number: u32,
    /// What it calls itself.
    pub name: String,
    /// The name of its namespace.
    pub namespace: String,
    /// The user who began it. Only programs of one user share a port (SO_REUSEPORT).
    pub owner: u32,
    /// The namespace's own table; that of `interface` counts more.
    pub table: Table,
    /// The interface whose addresses come first for its sessions.
    pub interface: Option<String>,
    /// What lets in a process that it forked.
    pub token: Token,
    /// Its connections may go round the stack where the other end agrees.
    pub cut_through: bool,
    /// What it may have.
    pub limits: ProgramLimits,
    /// Bytes of a receive FIFO, when it asks for no other.
    pub rx_fifo: u32,
    /// Bytes of a transmit FIFO, likewise.
    pub tx_fifo: u32,
    /// Its shared memory.
    pub memory: Memory,
    /// What it has.
    pub quota: Arc<Quota>,
    /// What the sessions of its namespace have carried.
    pub traffic: Arc<Traffic>,
    /// Processes of other programs that hold sessions of it.
    pub foreign: Foreign,
    /// It wrote something impossible, and is served no more.
    pub is_cut: AtomicBool,
    /// A listener of it, on whatever worker, waits for it to have fewer sessions.
    pub is_stalled: AtomicBool,
}

/// Processes of other programs to which one of this program handed a socket (SCM_RIGHTS), and
/// which may do with its sessions what its own processes may. Each counts among its processes, which
/// bounds them.
#[derive(Default)]
pub struct Foreign {
    /// How many there are: whoever finds none asks no further.
    count: AtomicUsize,
    numbers: Mutex<Vec<u32>>,
}

impl Foreign {
    /// This process is one from now on. False: it was before.
    pub fn add(&self, process: u32) -> bool {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !numbers.contains(&process);
        if is_new {
            numbers.push(process);
            self.count.store(numbers.len(), Ordering::Release);
        }
        is_new
    }

    /// The process is none any more.
    pub fn remove(&self, process: u32) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.retain(|number| *number != process);
        self.count.store(numbers.len(), Ordering::Release);
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether this process is one.
    pub fn has(&self, process: u32) -> bool {
        !self.is_empty()
            && self.numbers.lock().unwrap_or_else(PoisonError::into_inner).contains(&process)
    }
}

impl Program {
    /// Whether a process of `program` may use what is this one's.
    pub fn admits(self: &Arc<Program>, program: &Arc<Program>, process: u32) -> bool {
        Arc::ptr_eq(self, program) || self.foreign.has(process)
    }

    /// For a listener that found no room: it is looked at when a session ends from now on. There
    /// may be room by now.
    pub fn stall(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
        // Either who looks for room next sees the session that ended, or who ended it sees the
        // mark.
        fence(Ordering::SeqCst);
    }

    /// After a session ended: whether listeners must be looked at.
    pub fn take_stalled(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_stalled.load(Ordering::Relaxed) && self.is_stalled.swap(false, Ordering::AcqRel)
    }

    /// Whether an attach socket leads to it; None: the main attach socket, which leads everywhere.
    pub fn is_behind(&self, attach_socket_of: Option<&str>) -> bool {
        attach_socket_of.is_none_or(|namespace| namespace == self.namespace)
    }

    /// Bytes of a receive FIFO, when the program asked for so many; 0 is no wish.
    pub fn rx_len(&self, asked: u32) -> u32 {
        let len = if asked == 0 { self.rx_fifo } else { asked };
        len.max(MIN_RX_FIFO).min(self.limits.max_fifo.max(MIN_RX_FIFO))
    }

    /// Bytes of a transmit FIFO, likewise.
    pub fn tx_len(&self, asked: u32) -> u32 {
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
    /// Its processes: their numbers here, and their process ids at the kernel (0 when they are in a
    /// PID namespace that we do not see).
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
    /// Sockets that stayed with the kernel: what the program did, why that was not Clearway's, and
    /// how often.
    pub stayed: Vec<(String, String, u64)>,
}
