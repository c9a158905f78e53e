//! Bytes in and out of a connection, and connections out of a listener.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{Request, Session, stamping};
use clearway_shm::layout::{AcceptRecord, Message, flags, request, state, taken_by};
use clearway_shm::{Consumer, FifoMem, Producer};

use super::{Received, SendTo, broken};
use crate::attach::Attachment;
use crate::core::Used;
use crate::ready::{READ, WRITE};
use crate::wait::Deadline;
use crate::{Errno, Socket};

/// Bytes that are published at once: while the next ones are copied, the worker sends these.
const CHUNK: u32 = 64 * 1024;

/// Where a stream ends for its reader.
pub(super) const ENDED: u32 = state::PEER_CLOSED | state::FAILED | state::CLOSED;

impl Socket {
    pub(super) fn send_stream(
        &self,
        from: &[IoSlice<'_>],
        how: &SendTo,
        flags: i32,
    ) -> Result<usize, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return self.send_urgent(from, flags & !libc::MSG_OOB);
        }
        let total: usize = from.iter().map(|part| part.len()).sum();
        let stamped = self.stamped(how);
        let mut sent = 0;
        let mut deadline = None;
        loop {
            match self.may_send_soon(sent, flags, &mut deadline) {
                Err(_) if sent > 0 => return Ok(sent),
                may => may?,
            }
            if stamped.is_some() {
                self.find_stamps();
            }
            match self.write_some(from, sent, (flags, stamped)) {
                Err(Errno::FAULT) if sent > 0 => return Ok(sent),
                written => sent += written?,
            }
            if sent == total {
                return Ok(sent);
            }
            match self.make_room(flags, &mut deadline) {
                Err(_) if sent > 0 => return Ok(sent),
                made => made?,
            }
        }
    }

    /// Waits for the end of the handshake, if the call blocks.
    pub(super) fn may_send_soon(
        &self,
        sent: usize,
        flags: i32,
        deadline: &mut Option<Deadline>,
    ) -> Result<(), Errno> {
        while !self.may_send(sent)? {
            if !self.blocks(flags) {
                return Err(Errno::AGAIN);
            }
            self.wait_to_send(deadline)?;
        }
        Ok(())
    }

    /// The FIFO is full: waits until there is room, if the call blocks.
    pub(super) fn make_room(
        &self,
        flags: i32,
        deadline: &mut Option<Deadline>,
    ) -> Result<(), Errno> {
        if self.ask_for_room()? {
            return Ok(());
        }
        if self.blocks(flags) {
            return self.wait_to_send(deadline);
        }
        self.client.poll_once();
        Err(Errno::AGAIN)
    }

    /// Whether bytes may be written now; false while the handshake goes on. An error is taken when
    /// nothing was sent, else it stays for the next call.
    fn may_send(&self, sent: usize) -> Result<bool, Errno> {
        let alive = self.is_alive();
        let state = self.core.state();
        let shut = self.core.flags() & flags::SHUT_WRITE != 0;
        if self.core.has_error(alive)
            || !alive
            || shut
            || state & (state::FAILED | state::CLOSED) != 0
        {
            return Err(match sent {
                0 => self.core.take_error(alive).unwrap_or(Errno::PIPE),
                _ => Errno::PIPE,
            });
        }
        match state {
            _ if state & state::CONNECTING != 0 => Ok(false),
            _ if state & state::CONNECTED == 0 => Err(Errno::PIPE),
            _ if self.core.tx().is_some() || self.rx_by_now().is_some() => Ok(true),
            _ => Err(Errno::PIPE),
        }
    }

    /// The receive FIFO, also when another process connected the stream.
    fn rx_by_now(&self) -> Option<Used<Consumer>> {
        self.core.rx().or_else(|| {
            if self.core.is_unlearnt() {
                self.learn();
            }
            self.core.rx()
        })
    }

    /// Bytes that may be written besides what room says (SO_SNDBUF). Call with `tx_lock` held.
    pub(super) fn most_to_send(&self, tx: &FifoMem) -> usize {
        match self.core.send_limit() {
            u32::MAX => usize::MAX,
            _ => self.core.room(tx) as usize,
        }
    }

    /// Writes what there is room for, behind the first `skip` bytes, and tells the worker.
    fn write_some(
        &self,
        from: &[IoSlice<'_>],
        skip: usize,
        (flags, stamped): (i32, Option<u32>),
    ) -> Result<usize, Errno> {
        let Some(tx) = self.core.tx() else { return Ok(0) };
        let held = self.core.lock_tx();
        let most = self.most_to_send(&tx.mem);
        let more = flags & libc::MSG_MORE != 0;
        let bounds = Bounds { skip, most, more, ends_short: !self.blocks(flags) };
        let mark = |end| {
            if let Some(flags) = stamped {
                self.mark(flags, end);
            }
        };
        let written = tx
            .with(&held, |tx| write_from(tx, from, bounds, mark, || self.tell(request::WROTE, 0)));
        written.map_err(broken)?
    }

    /// The FIFO is full: the worker shall tell when it is not. True when there is room after all.
    fn ask_for_room(&self) -> Result<bool, Errno> {
        let Some(tx) = self.core.tx() else { return Ok(false) };
        tx.mem.head().want_room.swap(1, std::sync::atomic::Ordering::AcqRel);
        Ok(self.core.room(&tx.mem) > 0)
    }

    fn wait_to_send(&self, deadline: &mut Option<Deadline>) -> Result<(), Errno> {
        let deadline = *deadline.get_or_insert_with(|| self.send_deadline());
        let can_go_on = || match self.may_send(1) {
            Ok(connected) => {
                connected && self.core.tx().is_some_and(|tx| self.core.room(&tx.mem) > 0)
            }
            Err(_) => true,
        };
        self.client.wait_for(&self.core, WRITE, deadline, can_go_on)
    }

    pub(super) fn recv_stream(
        &self,
        into: &mut [IoSliceMut<'_>],
        flags: i32,
    ) -> Result<Received, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return self.recv_urgent(into, flags);
        }
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(Errno::AGAIN);
        }
        let wanted: usize = into.iter().map(|part| part.len()).sum();
        let least = match flags & (libc::MSG_WAITALL | libc::MSG_PEEK) {
            libc::MSG_WAITALL => wanted,
            0 => wanted.min(self.core.lowat() as usize),
            _ => 1,
        };
        let (mut got, mut arrived) = (0, 0);
        let mut deadline = None;
        if self.stamping() != 0 {
            self.find_stamps();
        }
        loop {
            // The state is read before the FIFO: what ends the stream is set after the last byte.
            let state = self.core.state();
            match self.read_some(into, got, flags, &mut arrived) {
                Err(Errno::FAULT) if got > 0 => break,
                read => got += read?,
            }
            let enough = got == wanted || got > 0 && (got >= least || self.at_mark());
            if enough && (got > 0 || self.core.readable()) {
                break;
            }
            match self.nothing_to_read(state, got) {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) if got > 0 => break,
                Err(errno) => return Err(errno),
            }
            let waited = match self.blocks(flags) {
                true => self.wait_to_receive(&mut deadline),
                false => {
                    self.client.poll_once();
                    Err(Errno::AGAIN)
                }
            };
            match waited {
                Err(_) if got > 0 => break,
                waited => waited?,
            }
        }
        Ok(Received { len: got, arrived, ..Received::default() })
    }

    /// Reads what is there, behind the first `skip` bytes of the program's memory, and tells the
    /// worker when it waits for room.
    fn read_some(
        &self,
        into: &mut [IoSliceMut<'_>],
        skip: usize,
        flags: i32,
        arrived: &mut u64,
    ) -> Result<usize, Errno> {
        let Some(rx) = self.rx_by_now() else { return Ok(0) };
        if self.core.state() & state::LISTENING != 0 {
            return Ok(0);
        }
        let held = self.core.lock_rx();
        let read = rx.with(&held, |rx| {
            // The end before the mark: who sees a byte sees whether it is urgent.
            let there = rx.len().map_err(broken)?;
            let mark = self.core.urgent();
            let (over, most) = self.before_mark(mark, there);
            let read = read_into(rx, into, skip, flags, (over, most))?;
            if read > 0 && stamping::notes_arrival(self.stamping()) {
                let end = rx.position().wrapping_add(over + read as u32);
                *arrived = self.arrival_of(end, flags & libc::MSG_PEEK == 0);
            }
            if flags & libc::MSG_PEEK != 0 {
                return Ok::<_, Errno>((read, false));
            }
            rx.consume(over + read as u32);
            self.core.passed(mark, over + read as u32);
            Ok((read, rx.room_wanted(rx.mem().limit() / 2)))
        });
        drop(held);
        let (read, room_is_wanted) = read.map_err(broken)??;
        if room_is_wanted {
            self.tell(request::CONSUMED, 0);
        }
        Ok(read)
    }

    /// Nothing was there: true at the end of the stream, false when something may still come. An
    /// error is taken when nothing was read.
    fn nothing_to_read(&self, state: u32, got: usize) -> Result<bool, Errno> {
        let alive = self.is_alive();
        if state & state::PEER_CLOSED != 0 {
            // Behind the end of the stream there is no error to read, as in Linux.
            return Ok(true);
        }
        if self.core.has_error(alive) {
            return match got {
                0 => self.core.take_error(alive).map_or(Ok(true), Err),
                _ => Ok(true),
            };
        }
        if !alive || state & ENDED != 0 || self.core.flags() & flags::SHUT_READ != 0 {
            return Ok(true);
        }
        match state & (state::CONNECTED | state::CONNECTING) {
            0 => Err(Errno::NOTCONN),
            _ => Ok(false),
        }
    }

    fn wait_to_receive(&self, deadline: &mut Option<Deadline>) -> Result<(), Errno> {
        let deadline = *deadline.get_or_insert_with(|| self.receive_deadline());
        let was_alive = self.is_alive();
        let can_go_on = || {
            let alive = self.is_alive();
            let state = self.core.state();
            // A listener that was shut down is nothing of all this any more.
            let begun = state & (state::CONNECTED | state::CONNECTING | state::LISTENING) != 0;
            let ended = !begun || state & ENDED != 0 || self.core.flags() & flags::SHUT_READ != 0;
            let lost = !alive && !self.core.comes_back();
            let is_back = alive && !was_alive;
            self.core.readable() || ended || lost || is_back || self.core.has_error(alive)
        };
        self.client.wait_for(&self.core, READ, deadline, can_go_on)
    }

    pub(super) fn accept_stream(
        &self,
        close_on_exec: bool,
    ) -> Result<(Arc<Socket>, OwnedFd, SocketAddr), Errno> {
        let mut deadline = None;
        loop {
            let alive = self.is_alive();
            if let Some(errno) = self.core.take_error(alive) {
                return Err(errno);
            }
            if !alive && self.core.comes_back() {
                // It has nothing to accept before there is a host again.
                self.client.come_back();
                if !self.blocks(0) && !self.is_alive() {
                    return Err(Errno::AGAIN);
                }
                if !self.is_alive() {
                    self.wait_to_receive(&mut deadline)?;
                }
                continue;
            }
            let listening = alive && self.core.state() & state::LISTENING != 0;
            if !listening || self.core.flags() & flags::SHUT_READ != 0 {
                return Err(Errno::INVAL);
            }
            match self.take_connection(close_on_exec)? {
                Some(taken) => {
                    if self.core.connections_waiting() > 0 {
                        // Of this one nobody told, perhaps: it came before the last one was taken.
                        self.client.hub().wake_acceptors(self.core.key);
                    }
                    return Ok(taken);
                }
                None if !self.blocks(0) => {
                    self.client.poll_once();
                    return Err(Errno::AGAIN);
                }
                None => self.wait_to_receive(&mut deadline)?,
            }
        }
    }

    /// Takes the next connection that waits.
    fn take_connection(
        &self,
        close_on_exec: bool,
    ) -> Result<Option<(Arc<Socket>, OwnedFd, SocketAddr)>, Errno> {
        if !self.core.readable() {
            return Ok(None);
        }
        // Without a host there is nothing to take, as is seen by the next look.
        let Ok(attachment) = self.attachment() else { return Ok(None) };
        let waiting = || self.core.connections_waiting();
        let Some(session_fd) = self.client.session_fd(&attachment, waiting) else {
            return self.ask_for_connection(&attachment, close_on_exec);
        };
        // Before a connection is taken out: without a number for it, it waits for a better time.
        let lowest = match session_fd.lowest(close_on_exec) {
            Ok(lowest) => lowest,
            Err(errno) => {
                self.client.give_back(&attachment, session_fd);
                return Err(errno);
            }
        };
        while let Some(record) = self.next_connection()? {
            let Ok(words) = self.client.words_at(&attachment, self.core.app(), record.head())
            else {
                continue;
            };
            let mine = taken_by(attachment.process);
            // Another process has it, or it went while it waited. The next one may be there.
            if words
                .claim
                .compare_exchange(record.session, mine, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
            {
                continue;
            }
            let session =
                words.described(record.session, record.head(), self.core.v6, self.options());
            let adopted = self.adopt_connection(&attachment, &session);
            // Also of one that cannot be used: it ends with its session fd.
            let claim =
                Message { session: record.session, what: request::CLAIM, aux: session_fd.name };
            // Nobody waits for its hearing yet: it is heard when the process writes, or goes to
            // sleep.
            attachment.push_quietly(claim, || self.client.poll_once());
            let (socket, remote) = adopted?;
            socket.has_line(session_fd.line(&self.client, &attachment));
            return Ok(Some((socket, lowest, remote)));
        }
        self.client.give_back(&attachment, session_fd);
        Ok(None)
    }

    /// The same, where the host is asked for the connection and its session fd.
    fn ask_for_connection(
        &self,
        attachment: &Arc<Attachment>,
        close_on_exec: bool,
    ) -> Result<Option<(Arc<Socket>, OwnedFd, SocketAddr)>, Errno> {
        if self.core.readable() {
            attachment.has_free_number()?;
        }
        while let Some(record) = self.next_connection()? {
            let claimed = self.claim(attachment, record.session);
            match &claimed {
                // It went while it waited, or another process has it. The next one may be there.
                Err(errno) if *errno != Errno::MFILE => {}
                Ok((_, session_fd, _)) if !close_on_exec => {
                    rustix::io::fcntl_setfd(session_fd, rustix::io::FdFlags::empty())?;
                    return claimed.map(Some);
                }
                _ => return claimed.map(Some),
            }
        }
        Ok(None)
    }

    /// Takes an accept record out of a listener's FIFO.
    fn next_connection(&self) -> Result<Option<AcceptRecord>, Errno> {
        let Some(rx) = self.core.rx() else { return Ok(None) };
        let held = self.core.lock_rx();
        let taken = rx.with(&held, |rx| rx.pop_accept().map(|record| (record, rx.room_wanted(1))));
        drop(held);
        let (record, room_is_wanted) = taken.and_then(|taken| taken).map_err(broken)?;
        if room_is_wanted {
            self.tell(request::CONSUMED, 0);
        }
        Ok(record)
    }

    fn claim(
        &self,
        attachment: &Arc<Attachment>,
        session: u64,
    ) -> Result<(Arc<Socket>, OwnedFd, SocketAddr), Errno> {
        let (session, session_fd) =
            self.client.ask_session(attachment, &Request::Claim { session })?;
        let session_fd = session_fd.ok_or(Errno::PROTO)?;
        let (socket, remote) = self.adopt_connection(attachment, &session)?;
        Ok((socket, session_fd, remote))
    }

    fn adopt_connection(
        &self,
        attachment: &Arc<Attachment>,
        session: &Session,
    ) -> Result<(Arc<Socket>, SocketAddr), Errno> {
        let remote = session.remote.unwrap_or_else(|| self.unspecified());
        let options = self.options();
        let socket = self.client.adopt(attachment, self.core.app(), session, options)?;
        socket.set_flag(flags::OOB_INLINE, options.oob_inline);
        Ok((socket, remote))
    }
}

/// What of a program's bytes is written.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Those behind so many.
    pub skip: usize,
    /// At most so many.
    pub most: usize,
    /// More follows in a later call (MSG_MORE).
    pub more: bool,
    /// Nobody goes on where there was no room: what was written then is all of the call.
    pub ends_short: bool,
}

impl Bounds {
    /// All behind the first `skip`.
    pub(super) fn behind(skip: usize) -> Bounds {
        Bounds { skip, most: usize::MAX, more: false, ends_short: false }
    }
}

/// Copies bytes of `from` within the bounds, as long as there is room, and publishes them in
/// chunks. All but the last say that more follows: where a chunk ends is nothing that the peer
/// should find a small segment at, and wait for its acknowledgement. The last one says what the
/// program says.
///
/// `mark` is told where in the FIFO the last byte of the program's call ends, before it is
/// published.
///
/// # Errors
/// EFAULT: bytes of the first chunk are not there. In a later one, those before it are written.
pub(super) fn write_from(
    tx: &mut Producer,
    from: &[IoSlice<'_>],
    bounds: Bounds,
    mark: impl Fn(u32),
    tell: impl Fn(),
) -> Result<usize, Errno> {
    let Bounds { mut skip, most, more, ends_short } = bounds;
    let all = from.iter().map(|part| part.len()).sum::<usize>().saturating_sub(skip);
    let wanted = all.min(most);
    // What is cut short is written by another call, or never.
    let more = more && wanted == all;
    let ends = |written: usize| ends_short || written == all;
    let mut written = 0;
    let mut unpublished = 0;
    for part in from {
        let mut rest = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        while !rest.is_empty() && written < most {
            let chunk = &rest[..rest.len().min((CHUNK - unpublished) as usize).min(most - written)];
            let len = tx.write_ahead(unpublished, chunk).map_err(broken)?;
            if len == 0 && tx.faulted() {
                return ended_by_fault(tx, written - unpublished as usize, tell);
            }
            unpublished += len;
            written += len as usize;
            if (len as usize) < chunk.len() {
                if ends(written) && unpublished > 0 {
                    mark(tx.position().wrapping_add(unpublished));
                }
                publish(tx, unpublished, false, &tell);
                return Ok(written);
            }
            if unpublished == CHUNK {
                // Room that is there stays there, so there will be a next chunk.
                if written == wanted && ends(written) {
                    mark(tx.position().wrapping_add(unpublished));
                }
                let room = tx.room().map_err(broken)?;
                let more = if written < wanted { room > unpublished } else { more };
                publish(tx, std::mem::take(&mut unpublished), more, &tell);
            }
            rest = &rest[len as usize..];
        }
    }
    if ends(written) && unpublished > 0 {
        mark(tx.position().wrapping_add(unpublished));
    }
    publish(tx, unpublished, more, &tell);
    Ok(written)
}

/// A chunk has bytes that are not there: none of it is sent, and after `written` bytes nothing
/// follows, as was said with them.
#[cold]
fn ended_by_fault(tx: &Producer, written: usize, tell: impl Fn()) -> Result<usize, Errno> {
    if written == 0 {
        return Err(Errno::FAULT);
    }
    tx.say_more(false);
    tell();
    Ok(written)
}

/// The next `len` bytes are the worker's, who is told if it has looked since the last time.
pub(super) fn publish(tx: &mut Producer, len: u32, more: bool, tell: impl Fn()) {
    if len > 0 {
        tx.say_more(more);
        tx.publish(len);
        if tx.kick() {
            tell();
        }
    }
}

/// Copies at most `most` bytes, those behind the first `over` of the FIFO, to `into` behind the
/// first `skip`. With MSG_TRUNC they are not copied.
fn read_into(
    rx: &mut Consumer,
    into: &mut [IoSliceMut<'_>],
    mut skip: usize,
    flags: i32,
    (over, most): (u32, u32),
) -> Result<usize, Errno> {
    let mut read = 0;
    for part in into {
        let whole = part.len();
        let rest = part.get_mut(skip..).unwrap_or_default();
        skip = skip.saturating_sub(whole);
        let len = rest.len().min((most - read) as usize);
        if len > 0 && flags & libc::MSG_TRUNC == 0 {
            rx.peek(over + read, &mut rest[..len]).map_err(broken)?;
            if rx.faulted() {
                return Err(Errno::FAULT);
            }
        }
        read += len as u32;
    }
    Ok(read as usize)
}

#[cfg(test)]
mod tests;
