//! Coming back: after a host went and another came, listeners and datagram sockets are there again,
//! as they were.
//!
//! Connections are dead with their host. A listener is not: nobody but the program has anything of
//! it, so it is told once that something was lost, has nothing to accept while there is no host,
//! and is made anew, with its address, options and backlog, when there is one. Whoever waits for
//! such a socket looks for the host now and then; in between nothing is done.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clearway_shm::attach_socket::{Kind, Request};

use crate::attach::Attachment;
use crate::client::Client;
use crate::core::Core;
use crate::internal::Internal;
use crate::{Errno, ready};

/// The host is looked for after so many milliseconds, then after twice as many, and so on.
const FIRST_MS: u64 = 50;

/// But at least so often.
const LONGEST_MS: u64 = 1000;

/// Called with the key of a socket ([`crate::Socket::key`]) that has another session fd from now
/// on.
pub type Renew = fn(usize, BorrowedFd<'_>);

/// What a process knows of its way back.
#[derive(Default)]
pub(crate) struct Back {
    /// There are sockets that wait for a host.
    longing: AtomicBool,
    /// It cannot open anything any more.
    given_up: AtomicBool,
    /// When the host is looked for next, and how long that was put off.
    due: AtomicU64,
    pause: AtomicU64,
    renew: OnceLock<Renew>,
}

impl Back {
    /// Nothing can be opened any more.
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// From now on the host is not looked for.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl Client {
    /// Says who puts a new session fd in the place of an old one, which is the program's
    /// descriptor. Without this the sockets keep it for themselves.
    pub fn on_renewal(&self, renew: Renew) {
        let _ = self.back.renew.set(renew);
    }

    /// A socket lost its host.
    pub(crate) fn long_for_host(&self) {
        if !self.back.longing.swap(true, Ordering::AcqRel) {
            self.back.pause.store(FIRST_MS, Ordering::Relaxed);
            self.back.due.store(now_ms() + FIRST_MS, Ordering::Relaxed);
        }
    }

    /// How long a thread may wait: until its own time is over, or until the host is to be looked
    /// for.
    pub(crate) fn until_next_look(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.may_come_back() {
            return timeout;
        }
        let look = Duration::from_millis(
            self.back.due.load(Ordering::Relaxed).saturating_sub(now_ms()).max(1),
        );
        Some(timeout.map_or(look, |timeout| timeout.min(look)))
    }

    fn may_come_back(&self) -> bool {
        self.back.longing.load(Ordering::Acquire) && !self.back.given_up.load(Ordering::Relaxed)
    }

    /// Looks for a host when it is time, and has the sockets made there that wait for one.
    pub(crate) fn come_back(&self) {
        if !self.may_come_back() {
            return;
        }
        let (now, due) = (now_ms(), self.back.due.load(Ordering::Relaxed));
        let pause = (self.back.pause.load(Ordering::Relaxed) * 2).clamp(FIRST_MS, LONGEST_MS);
        // One thread does it.
        if now < due
            || self
                .back
                .due
                .compare_exchange(due, now + pause, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        self.back.pause.store(pause, Ordering::Relaxed);
        let Ok(attachment) = self.enter() else { return };
        let waiting: Vec<Arc<Core>> = {
            let hub = self.hub();
            let cores = hub.sockets.iter().map(|(_, socket)| &socket.core);
            cores.filter(|core| core.comes_back()).cloned().collect()
        };
        let lost = waiting.iter().filter(|core| self.of(core).is_none());
        let back: Vec<bool> = lost.map(|core| self.revive(&attachment, core).is_ok()).collect();
        if back.into_iter().all(|back| back) && attachment.is_alive() {
            self.back.longing.store(false, Ordering::Release);
        }
    }

    fn revive(&self, attachment: &Arc<Attachment>, core: &Core) -> Result<(), Errno> {
        let (options, local, remote) = self
            .hub()
            .sockets
            .get(core.key)
            .map(|socket| (socket.options, socket.local, socket.remote))
            .ok_or(Errno::BADF)?;
        let backlog = core.is_listening().then(|| match core.backlog.load(Ordering::Relaxed) {
            // It was this program's before it was executed. The host cuts it.
            0 => u32::MAX,
            backlog => backlog,
        });
        let remote = remote.filter(|_| core.kind == Kind::Datagram);
        let (was, kind, v6) = (core.was(), core.kind, core.v6);
        let request = Request::Revive { was, kind, v6, options, local, remote, backlog };
        let (session, session_fd) = self.ask_session(attachment, &request)?;
        let session_fd = session_fd.ok_or(Errno::PROTO)?;
        let app = attachment.program.1;
        let words = self.words_at(attachment, app, session.head)?;
        let fifos = self.fifos(attachment, app, &session)?;
        core.begin_life(session.id, app, words);
        core.set_fifos(fifos);
        self.renew(core.key, session_fd);
        let mut hub = self.hub();
        hub.route(session.id, core.key);
        core.belong(attachment.number, self.forks());
        hub.mark(core.key, ready::ALL);
        Ok(())
    }

    fn renew(&self, key: usize, session_fd: OwnedFd) {
        match self.back.renew.get() {
            Some(renew) => renew(key, session_fd.as_fd()),
            None => {
                if let Some(socket) = self.hub().sockets.get_mut(key) {
                    socket.session_fd = Some(Internal::new(session_fd));
                }
            }
        }
    }
}

fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
