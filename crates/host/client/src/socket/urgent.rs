//! The urgent byte of a stream (MSG_OOB). As in Linux it is the byte before the peer's urgent
//! pointer, and stands outside of the stream unless SO_OOBINLINE is set.

use std::io::{IoSlice, IoSliceMut};

use clearway_shm::attach_socket::Request;
use clearway_shm::layout::{flags, request, state};

use super::stream::{Bounds, write_from};
use super::{Received, SendTo, broken};
use crate::core::Mark;
use crate::{Errno, Socket};

impl Socket {
    /// How many of the `there` bytes are passed over, and how many behind those may be read at
    /// once: a read ends before the urgent byte, and the next one begins behind it, unless it is in
    /// line.
    pub(super) fn before_mark(&self, mark: Option<Mark>, there: u32) -> (u32, u32) {
        match mark {
            None => (0, there),
            Some(mark) if mark.distance > 0 => (0, there.min(mark.distance)),
            Some(_) if self.core.is_oob_inline() || there == 0 => (0, there),
            Some(_) => (1, there - 1),
        }
    }

    /// MSG_OOB, to receive.
    pub(super) fn recv_urgent(
        &self,
        into: &mut [IoSliceMut<'_>],
        flags: i32,
    ) -> Result<Received, Errno> {
        if self.core.state() & state::LISTENING != 0 {
            return Err(Errno::NOTCONN);
        }
        let rx = self.core.rx().ok_or(Errno::INVAL)?;
        let held = self.core.lock_rx();
        let mark = self.core.urgent().filter(|mark| !mark.is_taken && !self.core.is_oob_inline());
        let mark = mark.ok_or(Errno::INVAL)?;
        let mut byte = [0];
        let there = rx
            .with(&held, |rx| rx.peek(mark.distance, &mut byte))
            .and_then(|there| there)
            .map_err(broken)?;
        if there == 0 {
            // The peer has announced it, and it is under way.
            let ended = self.core.state() & super::stream::ENDED != 0
                || self.core.flags() & flags::SHUT_READ != 0;
            return if ended { Ok(Received::default()) } else { Err(Errno::AGAIN) };
        }
        if flags & libc::MSG_PEEK == 0 {
            self.core.take_urgent(mark);
        }
        let Some(part) = into.iter_mut().find(|part| !part.is_empty()) else {
            let flags = libc::MSG_OOB | libc::MSG_TRUNC;
            return Ok(Received { flags, ..Received::default() });
        };
        if flags & libc::MSG_TRUNC == 0 {
            part[0] = byte[0];
        }
        Ok(Received { len: 1, flags: libc::MSG_OOB, ..Received::default() })
    }

    /// MSG_OOB, to send: the last byte is urgent. What does not fit into the FIFO at once goes
    /// before, as ordinary bytes.
    pub(super) fn send_urgent(&self, from: &[IoSlice<'_>], flags: i32) -> Result<usize, Errno> {
        let total: usize = from.iter().map(|part| part.len()).sum();
        if total == 0 {
            return self.send_stream(from, &SendTo::default(), flags);
        }
        let mut sent = 0;
        let mut deadline = None;
        loop {
            match self.may_send_soon(sent, flags, &mut deadline) {
                Err(_) if sent > 0 => return Ok(sent),
                may => may?,
            }
            if self.write_urgent(from, sent, total)? {
                return Ok(total);
            }
            if sent + 1 < total {
                sent = self.send_stream(&first(from, total - 1), &SendTo::default(), flags)?;
                if sent + 1 < total {
                    return Ok(sent);
                }
                continue;
            }
            match self.make_room(flags, &mut deadline) {
                Err(_) if sent > 0 => return Ok(sent),
                made => made?,
            }
        }
    }

    /// Writes what lies behind the first `skip` bytes, if all of it fits, and announces the last
    /// byte as urgent before the worker can see any of it.
    fn write_urgent(&self, from: &[IoSlice<'_>], skip: usize, total: usize) -> Result<bool, Errno> {
        let Some(tx) = self.core.tx() else { return Ok(false) };
        let held = self.core.lock_tx();
        let room = tx.with(&held, |tx| tx.room()).and_then(|room| room).map_err(broken)?;
        let Some(ahead) = u32::try_from(total - skip).ok().filter(|ahead| *ahead <= room) else {
            return Ok(false);
        };
        self.ask(&Request::Urgent { session: self.core.id(), ahead })?;
        let written = tx.with(&held, |tx| {
            write_from(tx, from, Bounds::behind(skip), |_| {}, || self.tell(request::WROTE, 0))
        });
        written.map_err(broken)?.map(|_| true)
    }

    /// Another number after each urgent byte that came.
    pub fn urgents(&self) -> u32 {
        self.core.urgents()
    }

    /// SIOCATMARK: what is read next is the urgent byte.
    pub fn at_mark(&self) -> bool {
        self.core.urgent().is_some_and(|mark| mark.distance == 0)
    }
}

/// The first `len` bytes.
fn first<'a>(from: &'a [IoSlice<'a>], mut len: usize) -> Vec<IoSlice<'a>> {
    let mut parts = Vec::new();
    for part in from {
        let taken = &part[..part.len().min(len)];
        len -= taken.len();
        parts.push(IoSlice::new(taken));
    }
    parts
}
