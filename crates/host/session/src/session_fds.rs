//! Session fds of a process that came without a session: ahead of need, or by a message that closed
//! the session they stood for.
//!
//! A session fd stands for one session at a time. While it stands for none it is free. A worker
//! that hears of a claim has it stand for the session, and one that hears of the end of that
//! session frees it; the supervisor takes it away when it has hung up, and whoever comes then finds
//! nothing. All of that happens under one lock, so no session ends by the end of another, though
//! messages of a process reach several workers in any order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_shm::attach_socket::{MAX_AHEAD, SessionId};

use crate::quota::{Permit, Quota, Thing};

/// The session fds of one process.
#[derive(Default)]
pub struct SessionFds(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    fds: HashMap<u32, One>,
    /// Those that are free.
    free: u32,
    next: u32,
}

struct One {
    /// The session that it stands for; 0: it is free.
    word: Arc<AtomicU64>,
    /// Free ones beyond [`MAX_AHEAD`] count as sessions: each has a descriptor of the host's.
    permit: Option<Permit>,
}

/// What became of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// It stands for the session.
    Free,
    /// It does, and stood for this one, whose end was not heard of yet.
    Instead(SessionId),
    /// It has hung up: nobody holds the session.
    Gone,
}

impl SessionFds {
    /// How many more may be free.
    pub fn room(&self) -> u32 {
        MAX_AHEAD.saturating_sub(self.inside().free)
    }

    /// One more is free. Answers its name, and the word that will name its session.
    pub fn add(&self, word: &Arc<AtomicU64>) -> u32 {
        let mut inside = self.inside();
        let name = inside.next;
        inside.next = name.wrapping_add(1);
        inside.free += 1;
        inside.fds.insert(name, One { word: Arc::clone(word), permit: None });
        name
    }

    /// It is this session's from now on.
    pub fn claim(&self, name: u32, session: SessionId) -> Claimed {
        let mut inside = self.inside();
        let Some(one) = inside.fds.get_mut(&name) else { return Claimed::Gone };
        one.permit = None;
        match one.word.swap(session, Ordering::AcqRel) {
            0 => {
                inside.free -= 1;
                Claimed::Free
            }
            before => Claimed::Instead(before),
        }
    }

    /// It is free, if it stands for this session, which has ended.
    pub fn release(&self, name: u32, session: SessionId, quota: &Arc<Quota>) {
        let mut inside = self.inside();
        let Inside { fds, free, .. } = &mut *inside;
        let stands = |one: &&mut One| session != 0 && one.word.load(Ordering::Acquire) == session;
        let Some(one) = fds.get_mut(&name).filter(stands) else { return };
        one.word.store(0, Ordering::Release);
        *free += 1;
        if *free > MAX_AHEAD {
            // The session that has just ended left room for it.
            one.permit = Permit::take(quota, Thing::Session).ok();
        }
    }

    /// It has hung up, and nobody claims it from now on. Answers the session that it stands for; 0:
    /// it was free.
    pub fn end(&self, name: u32) -> SessionId {
        let mut inside = self.inside();
        let Some(one) = inside.fds.remove(&name) else { return 0 };
        let session = one.word.load(Ordering::Acquire);
        inside.free -= u32::from(session == 0);
        session
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
