//! What this process has ahead of need, so that a connection costs no question: session fds for
//! connections that it will accept, and streams that it will connect.
//!
//! A process asks for as many as a quarter of those that it has needed so far, so that one that
//! needs few holds none, or for as many as connections wait to be accepted. They stand at high
//! numbers, are closed by `exec`, and are closed in a forked child: there they would keep sessions
//! open that the parent gave up.
//!
//! A session fd whose session the program closes is kept, and serves the next one, as long as no
//! copy of it can be anywhere else: none in this process, and nothing has happened since it was
//! given out by which a descriptor gets into another ([`Client::session_fds_are_copied`]). So a
//! connection makes no descriptor, at the host neither.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway_shm::attach_socket::{Kind, Place, Reply, Request, Session, SessionId, SocketOptions};
use clearway_shm::layout::request;

use crate::attach::Attachment;
use crate::internal::Internal;
use crate::{Client, Errno, Socket};

/// Asked for at once at most.
const MOST: u32 = 16;

/// Session fds that are kept for the next connections at most: as many as a server has closed when
/// it takes the next ones.
const KEPT: u32 = 256;

/// Of the descriptors that the process may have, one in so many is asked for at once at most,
const OF_LIMIT: u64 = 64;

/// and one in so many is kept at most.
const KEPT_OF_LIMIT: u64 = 16;

/// Peers that are remembered, so that connections to them cost no question.
const REACHED: usize = 16;

/// What is held.
#[derive(Default)]
pub(crate) struct Ahead {
    fds: Vec<SessionFd>,
    accepted: u32,
    /// For IPv4, and for IPv6.
    streams: [Vec<(SessionId, Place, SessionFd)>; 2],
    opened: u32,
    /// How many session fds are kept.
    kept: u32,
    /// Who was connected to since the routes are as they are, the latest last.
    reached: VecDeque<IpAddr>,
    /// The generation of the routes when the streams were made: they have the namespace's addresses
    /// of then.
    routes: u32,
}

/// A session fd that the program does not have: its name at the host, and the descriptor.
pub(crate) struct SessionFd {
    pub(crate) name: u32,
    fd: Internal,
    /// O_NONBLOCK is set on it.
    is_nonblocking: bool,
}

/// The session fd of a socket, when the host knows it by a name, and what may stand in the way of
/// using it again.
pub(crate) struct Line {
    name: u32,
    pub(crate) attachment: u32,
    /// [`Client::copies`] when the program got it.
    copies: u32,
    is_shared: AtomicBool,
    pub(crate) was_nonblocking: bool,
    /// Its session was opened with it, ahead of need.
    pub(crate) has_stream: bool,
}

impl SessionFd {
    /// A copy at the lowest number that is free: what the program gets.
    pub(crate) fn lowest(&self, close_on_exec: bool) -> Result<OwnedFd, Errno> {
        Ok(clearway_shm::socket::copy_from(self.fd.as_fd(), 0, close_on_exec)?)
    }

    /// What a socket knows of it from now on.
    pub(crate) fn line(&self, client: &Client, attachment: &Attachment) -> Line {
        Line {
            name: self.name,
            attachment: attachment.number,
            copies: client.copies(),
            is_shared: AtomicBool::new(false),
            was_nonblocking: self.is_nonblocking,
            has_stream: false,
        }
    }
}

impl Ahead {
    /// The routes are of this generation. Answers streams that were made for others.
    fn routes_are(&mut self, routes: u32) -> [Vec<(SessionId, Place, SessionFd)>; 2] {
        if self.routes == routes {
            return Default::default();
        }
        self.routes = routes;
        self.reached.clear();
        std::mem::take(&mut self.streams)
    }
}

/// So many descriptors, or one in so many of those that the process may have.
fn within_limit(count: u32, one_in: u64) -> u32 {
    let limit =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    count.min((limit / one_in).try_into().unwrap_or(u32::MAX))
}

/// How many to ask for when so many were needed, and so many are needed now; fewer than two are not
/// worth it.
fn worth_asking(needed: u32, now: u32) -> Option<u32> {
    let count = (needed / 4).max(now).min(MOST);
    if count < 2 {
        return None;
    }
    Some(within_limit(count, OF_LIMIT)).filter(|count| *count > 1)
}

/// Session fds as they came with an answer.
fn named(first: u32, fds: Vec<OwnedFd>) -> impl Iterator<Item = SessionFd> {
    let fds = Internal::several(fds).into_iter().zip(0u32..);
    fds.map(move |(fd, at)| SessionFd { name: first.wrapping_add(at), fd, is_nonblocking: false })
}

impl Client {
    /// A session fd for a connection that is about to be accepted; `waiting` tells of how many. None:
    /// it comes with the answer to `Claim`.
    pub(crate) fn session_fd(
        &self,
        attachment: &Arc<Attachment>,
        waiting: impl FnOnce() -> u32,
    ) -> Option<SessionFd> {
        let count = {
            let mut hub = self.hub();
            let ahead = &mut hub.ahead;
            ahead.accepted = ahead.accepted.saturating_add(1);
            match ahead.fds.pop() {
                Some(fd) => return Some(fd),
                None => worth_asking(ahead.accepted, waiting())?,
            }
        };
        let asked = self.ask_for(attachment, &Request::SessionFds { count }, count as usize);
        let Ok((Reply::SessionFds { first }, fds)) = asked else {
            // This process, or the host, has no room for them now.
            self.hub().ahead.accepted = 0;
            return None;
        };
        let mut fds: Vec<_> = named(first, fds).collect();
        let one = fds.pop();
        self.keep(attachment, |ahead| {
            ahead.fds.append(&mut fds);
            ahead.kept = within_limit(KEPT, KEPT_OF_LIMIT);
        });
        one
    }

    /// It was not needed after all.
    pub(crate) fn give_back(&self, attachment: &Attachment, fd: SessionFd) {
        self.keep(attachment, |ahead| ahead.fds.push(fd));
    }

    /// A stream that nobody has used, and its session fd. None: it is to be opened.
    pub(crate) fn opened_ahead(
        &self,
        attachment: &Arc<Attachment>,
        v6: bool,
    ) -> Option<(Session, OwnedFd, Line)> {
        let routes = attachment.host.routes();
        let stale;
        let (count, known) = {
            let mut hub = self.hub();
            let ahead = &mut hub.ahead;
            ahead.opened = ahead.opened.saturating_add(1);
            stale = ahead.routes_are(routes);
            match ahead.streams[usize::from(v6)].pop() {
                Some(stream) => return Some(self.fresh(attachment, stream, v6)),
                None => {
                    let count = worth_asking(ahead.opened, 0);
                    let from = ahead.fds.len().saturating_sub(count.unwrap_or(0) as usize);
                    (count, ahead.fds.split_off(from))
                }
            }
        };
        drop(stale);
        let count = count?;
        let names = known.iter().map(|fd| fd.name).collect();
        let asked =
            self.ask_for(attachment, &Request::OpenAhead { v6, count, fds: names }, count as usize);
        let mut known = known.into_iter();
        let opened = match asked {
            Ok((Reply::OpenedAhead { sessions, first }, fds)) => Some((sessions, first, fds)),
            _ => None,
        };
        let has_opened = opened.is_some();
        let (sessions, first, fds) = opened.unwrap_or_default();
        let mut fds = known
            .by_ref()
            .take(sessions.len())
            .chain(named(first, fds))
            .collect::<Vec<_>>()
            .into_iter();
        let streams = sessions.into_iter().zip(fds.by_ref());
        let mut streams: Vec<_> = streams.map(|((id, head), fd)| (id, head, fd)).collect();
        let one = streams.pop();
        self.keep(attachment, |ahead| {
            if has_opened && ahead.routes == routes {
                ahead.streams[usize::from(v6)].append(&mut streams);
                ahead.kept = within_limit(KEPT, KEPT_OF_LIMIT);
            }
            // For these there was no stream.
            ahead.fds.extend(known);
            if !has_opened {
                ahead.opened = 0;
            }
        });
        Some(self.fresh(attachment, one?, v6))
    }

    /// A connection to this address has begun: there is a way to it, as the routes are now.
    pub(crate) fn has_connected_to(&self, attachment: &Attachment, address: IpAddr) {
        let routes = attachment.host.routes();
        let mut stale = Default::default();
        self.keep(attachment, |ahead| {
            stale = ahead.routes_are(routes);
            if !ahead.reached.contains(&address) {
                if ahead.reached.len() == REACHED {
                    ahead.reached.pop_front();
                }
                ahead.reached.push_back(address);
            }
        });
    }

    /// Whether that is so.
    pub(crate) fn connected_to(&self, attachment: &Attachment, address: IpAddr) -> bool {
        let mut is_so = false;
        self.keep(attachment, |ahead| {
            is_so = ahead.routes == attachment.host.routes() && ahead.reached.contains(&address);
        });
        is_so
    }

    /// Keeps what belongs to this attachment, if that is still in use.
    fn keep(&self, attachment: &Attachment, keep: impl FnOnce(&mut Ahead)) {
        let mut hub = self.hub();
        if hub.alive() == Some(attachment.number) {
            keep(&mut hub.ahead);
        }
    }

    fn fresh(
        &self,
        attachment: &Attachment,
        (id, head, fd): (SessionId, Place, SessionFd),
        v6: bool,
    ) -> (Session, OwnedFd, Line) {
        let options = SocketOptions::default();
        let (rx, tx, local, remote) = (None, None, None, None);
        let line = Line { has_stream: true, ..fd.line(self, attachment) };
        (
            Session { id, kind: Kind::Stream, v6, head, rx, tx, local, remote, options },
            fd.fd.release(),
            line,
        )
    }

    /// Keeps a session fd whose session was closed, for the next one. False: there are enough.
    fn keep_session_fd(
        &self,
        attachment: &Attachment,
        name: u32,
        fd: BorrowedFd<'_>,
        is_nonblocking: bool,
    ) -> bool {
        let has_room = |ahead: &Ahead| ahead.fds.len() < ahead.kept as usize;
        if !has_room(&self.hub().ahead) {
            return false;
        }
        let Some(fd) = Internal::copy_of(fd) else { return false };
        let mut is_kept = false;
        self.keep(attachment, |ahead| {
            is_kept = has_room(ahead);
            if is_kept {
                ahead.fds.push(SessionFd { name, fd, is_nonblocking });
            }
        });
        is_kept
    }
}

impl Socket {
    /// O_NONBLOCK is set on the session fd as the program gets it: it served another connection
    /// before, whose program had set it.
    pub fn session_fd_is_nonblocking(&self) -> bool {
        self.line.get().is_some_and(|line| line.was_nonblocking)
    }

    /// Its session fd has got something that the next connection's must not have, or a copy where
    /// nobody looks: it is closed with the socket.
    pub fn keep_session_fd_apart(&self) {
        if let Some(line) = self.line.get() {
            line.is_shared.store(true, Ordering::Relaxed);
        }
    }

    /// Call right before the program's last descriptor of this socket is closed, while nobody is
    /// inside a call on it: closes the session by a message, and keeps the session fd for the next
    /// connection, when that is possible. Otherwise the host sees the session fd hang up. Whether
    /// it has O_NONBLOCK must be what the socket's flag says.
    pub fn close_by_message(&self, session_fd: BorrowedFd<'_>) -> bool {
        let Some(line) = self.line.get() else { return false };
        let Ok(attachment) = self.attachment() else { return false };
        let is_alone = line.attachment == attachment.number
            && line.copies == self.client().copies()
            && !line.is_shared.load(Ordering::Relaxed);
        // An address that was bound is free as soon as the host sees the session fd hang up, which
        // it looks for when it is asked for an address.
        if !is_alone || self.is_listener() || self.is_bound() {
            return false;
        }
        if !self.client().keep_session_fd(
            &attachment,
            line.name,
            session_fd,
            self.core.is_nonblocking(),
        ) {
            return false;
        }
        attachment.push(self.message(request::CLOSE, line.name), || self.client().poll_once());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_few_is_not_given_any_ahead() {
        assert!((0..8).all(|needed| worth_asking(needed, 1).is_none()));
        assert_eq!(worth_asking(8, 1), Some(2));
        assert_eq!(worth_asking(u32::MAX, 1), Some(MOST));
    }

    #[test]
    fn for_many_that_wait_is_asked_once() {
        assert_eq!(worth_asking(1, 5), Some(5));
        assert_eq!(worth_asking(40, 5), Some(10));
        assert_eq!(worth_asking(1, 4096), Some(MOST));
    }
}
