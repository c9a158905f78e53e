//! What this process has ahead of need, so that a connection costs no question: session fds for connections that it will accept, and streams that it will connect.
//!
//! A process asks for as many as a quarter of those that it has needed so far, so that one that needs few holds none. They stand at high numbers, are closed by `exec`, and are closed in a
//! forked child: there they would keep sessions open that the parent gave up.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use clearway_shm::attach_socket::{Kind, Place, Reply, Request, Session, SessionId, SocketOptions};

use crate::attach::Attachment;
use crate::internal::Internal;
use crate::{Client, Errno};

/// Asked for at once at most.
const MOST: u32 = 16;

/// Of the descriptors that the process may have, one in so many is asked for at once at most.
const OF_LIMIT: u64 = 64;

/// What is held.
#[derive(Default)]
pub(crate) struct Ahead {
    fds: Vec<SessionFd>,
    accepted: u32,
    /// For IPv4, and for IPv6.
    streams: [Vec<(SessionId, Place, Internal)>; 2],
    opened: u32,
    /// The generation of the routes when the streams were made: they have the namespace's addresses of then.
    routes: u32,
}

/// A session fd that is no session's yet: its name at the host, and the descriptor.
pub(crate) struct SessionFd {
    pub(crate) name: u32,
    fd: Internal,
}

impl SessionFd {
    /// A copy at the lowest number that is free: what the program gets.
    pub(crate) fn lowest(&self) -> Result<OwnedFd, Errno> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)?)
    }
}

/// How many to ask for when so many were needed; fewer than two are not worth it.
fn worth_asking(needed: u32) -> Option<u32> {
    let count = (needed / 4).min(MOST);
    if count < 2 {
        return None;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    Some(count.min((limit / OF_LIMIT).try_into().unwrap_or(MOST))).filter(|count| *count > 1)
}

impl Client {
    /// A session fd for a connection that is about to be accepted. None: it comes with the answer to `Claim`.
    pub(crate) fn session_fd(&self, attachment: &Arc<Attachment>) -> Option<SessionFd> {
        let count = {
            let mut hub = self.hub();
            let ahead = &mut hub.ahead;
            ahead.accepted = ahead.accepted.saturating_add(1);
            match ahead.fds.pop() {
                Some(fd) => return Some(fd),
                None => worth_asking(ahead.accepted)?,
            }
        };
        let asked = self.ask_for(attachment, &Request::SessionFds { count }, count as usize);
        let Ok((Reply::SessionFds { first }, fds)) = asked else {
            // This process, or the host, has no room for them now.
            self.hub().ahead.accepted = 0;
            return None;
        };
        let fds = Internal::several(fds).into_iter().zip(0u32..);
        let mut fds: Vec<_> = fds.map(|(fd, at)| SessionFd { name: first.wrapping_add(at), fd }).collect();
        let one = fds.pop();
        self.keep(attachment, |ahead| ahead.fds.append(&mut fds));
        one
    }

    /// It was not needed after all.
    pub(crate) fn give_back(&self, attachment: &Attachment, fd: SessionFd) {
        self.keep(attachment, |ahead| ahead.fds.push(fd));
    }

    /// A stream that nobody has used, and its session fd. None: it is to be opened.
    pub(crate) fn opened_ahead(&self, attachment: &Arc<Attachment>, v6: bool) -> Option<(Session, OwnedFd)> {
        let routes = attachment.host.routes();
        let stale;
        let count = {
            let mut hub = self.hub();
            let ahead = &mut hub.ahead;
            ahead.opened = ahead.opened.saturating_add(1);
            stale = if ahead.routes == routes { Default::default() } else { std::mem::take(&mut ahead.streams) };
            ahead.routes = routes;
            match ahead.streams[usize::from(v6)].pop() {
                Some(stream) => return Some(fresh(stream, v6)),
                None => worth_asking(ahead.opened),
            }
        };
        drop(stale);
        let count = count?;
        let asked = self.ask_for(attachment, &Request::OpenAhead { v6, count }, count as usize);
        let Ok((Reply::OpenedAhead(sessions), fds)) = asked else {
            self.hub().ahead.opened = 0;
            return None;
        };
        let streams = sessions.into_iter().zip(Internal::several(fds));
        let mut streams: Vec<_> = streams.map(|((id, head), fd)| (id, head, fd)).collect();
        let one = streams.pop()?;
        self.keep(attachment, |ahead| {
            if ahead.routes == routes {
                ahead.streams[usize::from(v6)].append(&mut streams);
            }
        });
        Some(fresh(one, v6))
    }

    /// Keeps what belongs to this attachment, if that is still in use.
    fn keep(&self, attachment: &Attachment, keep: impl FnOnce(&mut Ahead)) {
        let mut hub = self.hub();
        if hub.alive() == Some(attachment.number) {
            keep(&mut hub.ahead);
        }
    }
}

fn fresh((id, head, fd): (SessionId, Place, Internal), v6: bool) -> (Session, OwnedFd) {
    let options = SocketOptions::default();
    let (rx, tx, local, remote) = (None, None, None, None);
    (Session { id, kind: Kind::Stream, v6, head, rx, tx, local, remote, options }, fd.release())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_few_is_not_given_any_ahead() {
        assert!((0..8).all(|needed| worth_asking(needed).is_none()));
        assert_eq!(worth_asking(8), Some(2));
        assert_eq!(worth_asking(u32::MAX), Some(MOST));
    }
}
