//! What a socket is ready for, as its words and FIFOs in shared memory say it.

use std::sync::atomic::Ordering;

use clearway_shm::FifoMem;
use clearway_shm::attach_socket::Kind;
use clearway_shm::layout::{AcceptRecord, event, flags, state};

use crate::core::Core;

pub(crate) const IN: u32 = libc::EPOLLIN as u32;
pub(crate) const PRI: u32 = libc::EPOLLPRI as u32;
pub(crate) const OUT: u32 = libc::EPOLLOUT as u32;
pub(crate) const ERR: u32 = libc::EPOLLERR as u32;
pub(crate) const HUP: u32 = libc::EPOLLHUP as u32;
pub(crate) const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const RDNORM: u32 = libc::EPOLLRDNORM as u32;
const RDBAND: u32 = libc::EPOLLRDBAND as u32;
const WRNORM: u32 = libc::EPOLLWRNORM as u32;
const WRBAND: u32 = libc::EPOLLWRBAND as u32;

/// All that concerns reading.
pub(crate) const READ: u32 = IN | RDNORM | RDBAND | PRI | RDHUP;
/// All that concerns writing.
pub(crate) const WRITE: u32 = OUT | WRNORM | WRBAND;
/// Reported whether asked for or not.
pub(crate) const ALWAYS: u32 = ERR | HUP;
/// Everything.
pub(crate) const ALL: u32 = READ | WRITE | ALWAYS;

/// What a worker's event may have changed.
pub(crate) fn touched(what: u32) -> u32 {
    let mut bits = 0;
    if what & event::READABLE != 0 {
        bits |= READ;
    }
    if what & event::WRITABLE != 0 {
        bits |= WRITE;
    }
    if what & event::STATE != 0 {
        bits |= ALL;
    }
    bits
}

/// Bytes in a FIFO, by a look that needs no lock. The reader's position is read first: a reader
/// that moves meanwhile makes the result too large, never negative.
pub(crate) fn bytes_in(fifo: &FifoMem) -> u32 {
    let head = fifo.head().head.load(Ordering::Acquire);
    let tail = fifo.head().tail.load(Ordering::Acquire);
    tail.wrapping_sub(head)
}

/// Bytes that every receive FIFO takes, however short memory is, half of what it begins with at
/// least: nobody waits for more before a stream is readable.
const MOST_AWAITED: u32 = 32 * 1024;

/// Bytes that there is room for.
pub(crate) fn room_in(fifo: &FifoMem) -> u32 {
    fifo.lent_to_process().saturating_sub(bytes_in(fifo))
}

/// Linux calls a socket writable when a third of its buffer is free.
fn is_free(room: u32, limit: u32) -> bool {
    room >= (limit / 3).max(1)
}

impl Core {
    /// POLL* bits, as `tcp_poll` and `datagram_poll` of Linux give them. `alive`: the host is
    /// there.
    pub(crate) fn readiness(&self, alive: bool) -> u32 {
        if !alive && self.comes_back() {
            // Told once, and then as if nothing came and nothing could leave: until it is there
            // again.
            let bits = if self.kind == Kind::Stream { IN | RDNORM } else { IN | RDNORM | ERR };
            return if self.has_error(alive) { bits } else { 0 };
        }
        if !alive {
            return READ & !PRI | WRITE | HUP | if self.has_error(alive) { ERR } else { 0 };
        }
        let error = if self.has_error(alive) || self.has_reports() || self.completions.wait() {
            ERR
        } else {
            0
        };
        error
            | match self.kind {
                Kind::Stream => self.stream_readiness(),
                Kind::Datagram => self.datagram_readiness(),
            }
    }

    fn stream_readiness(&self) -> u32 {
        let state = self.state();
        if state & state::LISTENING != 0 {
            let ended = if self.flags() & flags::SHUT_READ != 0 { OUT | WRNORM | HUP } else { 0 };
            return ended | if self.readable() { IN | RDNORM } else { 0 };
        }
        if state & state::CONNECTING != 0 {
            return 0;
        }
        if state & (state::FAILED | state::CLOSED) != 0 {
            return IN | RDNORM | RDHUP | OUT | WRNORM | HUP;
        }
        if state & state::CONNECTED == 0 {
            // Linux: a stream that was never connected is closed.
            return OUT
                | WRNORM
                | HUP
                | if self.flags() & flags::SHUT_READ != 0 { IN | RDNORM | RDHUP } else { 0 };
        }
        let shut = self.flags();
        let (no_more_reads, no_more_writes) = (
            state & state::PEER_CLOSED != 0 || shut & flags::SHUT_READ != 0,
            shut & flags::SHUT_WRITE != 0,
        );
        let mut bits = 0;
        if no_more_reads {
            bits |= IN | RDNORM | RDHUP;
        } else if self.readable() && self.has_enough() {
            bits |= IN | RDNORM;
        }
        if no_more_writes || self.tx().is_some_and(|tx| self.is_writable(&tx.mem)) {
            bits |= OUT | WRNORM;
        }
        if no_more_reads && no_more_writes {
            bits |= HUP;
        }
        if self.has_urgent() {
            bits |= PRI;
        }
        bits
    }

    fn datagram_readiness(&self) -> u32 {
        let shut = self.flags();
        let mut bits = 0;
        if shut & flags::SHUT_READ != 0 {
            bits |= IN | RDNORM | RDHUP;
        } else if self.readable() {
            bits |= IN | RDNORM;
        }
        if shut & flags::SHUT_READ != 0 && shut & flags::SHUT_WRITE != 0 {
            bits |= HUP;
        }
        if self.tx().is_none_or(|tx| self.is_writable(&tx.mem)) {
            bits |= OUT | WRNORM | WRBAND;
        }
        bits
    }

    /// Bytes that may lie in the transmit FIFO.
    fn transmit_limit(&self, fifo: &FifoMem) -> u32 {
        match self.kind {
            Kind::Stream => fifo.lent_to_process().min(self.send_limit()),
            Kind::Datagram => fifo.lent_to_process(),
        }
    }

    /// Bytes that may be written.
    pub(crate) fn room(&self, fifo: &FifoMem) -> u32 {
        self.transmit_limit(fifo).saturating_sub(bytes_in(fifo))
    }

    fn is_writable(&self, fifo: &FifoMem) -> bool {
        let bound = self.unsent_bound.load(Ordering::Relaxed);
        is_free(self.room(fifo), self.transmit_limit(fifo))
            || bound != u32::MAX && self.room(fifo) >= bound / 2
    }

    /// The urgent byte is there, and nobody has taken it.
    fn has_urgent(&self) -> bool {
        let mark = self.urgent().filter(|mark| !mark.is_taken);
        mark.is_some_and(|mark| self.rx().is_some_and(|rx| bytes_in(&rx.mem) > mark.distance))
    }

    /// There is something to read in the receive FIFO. An urgent byte that stands outside of the
    /// stream is nothing.
    pub(crate) fn readable(&self) -> bool {
        let Some(rx) = self.rx() else { return false };
        match bytes_in(&rx.mem) {
            0 => false,
            1 => self.is_oob_inline() || self.urgent().is_none_or(|mark| mark.distance > 0),
            _ => true,
        }
    }

    /// A stream has as many bytes as it shall have to be readable. It never waits for more than
    /// there is room for before the peer hears of it.
    fn has_enough(&self) -> bool {
        let enough =
            |rx: &FifoMem| bytes_in(rx) >= self.lowat().min(rx.limit() / 2).min(MOST_AWAITED);
        self.lowat() == 1 || self.rx().is_some_and(|rx| enough(&rx.mem))
    }

    /// More than one connection waits to be accepted.
    pub(crate) fn has_several_waiting(&self) -> bool {
        self.connections_waiting() > 1
    }

    /// Connections that wait to be accepted.
    pub(crate) fn connections_waiting(&self) -> u32 {
        let one = size_of::<AcceptRecord>() as u32;
        let waiting = |rx: &FifoMem| bytes_in(rx) / one;
        if self.state() & state::LISTENING == 0 {
            0
        } else {
            self.rx().map_or(0, |rx| waiting(&rx.mem))
        }
    }

    /// Asks the worker to tell when any of `interest` changes. What is waited for must be looked at
    /// afterwards.
    pub(crate) fn arm(&self, interest: u32) {
        if let Some(rx) = self.rx().filter(|_| interest & READ != 0) {
            // As `Consumer::attend`: both sides exchange the word, so either the worker sees the 0
            // or we see its bytes.
            rx.mem.head().kicked.swap(0, Ordering::AcqRel);
        }
        if let Some(tx) = self.tx().filter(|tx| interest & WRITE != 0 && !self.is_writable(&tx.mem))
        {
            tx.mem.head().want_room.swap(1, Ordering::AcqRel);
        }
    }
}
