//! Session fds that a process holds ahead of need: they belong to no session yet.
//!
//! A session fd is given to a session once, and is not used again. While it is in this table it is free. It leaves the table once: a worker takes it for a session that the process
//! claims, or the supervisor does because it has hung up; whoever comes second finds nothing. So no fd ever stands for two sessions, and none is ended by the end of another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_shm::attach_socket::{MAX_AHEAD, SessionId};

/// The session fds of one process that are free.
#[derive(Default)]
pub struct SessionFds(Mutex<Free>);

#[derive(Default)]
struct Free {
    words: HashMap<u32, Arc<AtomicU64>>,
    next: u32,
}

impl SessionFds {
    /// How many more there may be.
    pub fn room(&self) -> u32 {
        MAX_AHEAD.saturating_sub(self.inside().words.len() as u32)
    }

    /// One more is free. Answers its name, and the word that will name its session.
    pub fn add(&self, word: &Arc<AtomicU64>) -> u32 {
        let mut inside = self.inside();
        let name = inside.next;
        inside.next = name.wrapping_add(1);
        inside.words.insert(name, Arc::clone(word));
        name
    }

    /// It is this session's from now on. False: it is not free.
    pub fn claim(&self, name: u32, session: SessionId) -> bool {
        let mut inside = self.inside();
        let word = inside.words.remove(&name);
        // Before anybody else can see that it is not free any more.
        word.is_some_and(|word| {
            word.store(session, Ordering::Release);
            true
        })
    }

    /// It has hung up. True: it was free, and nobody will claim it.
    pub fn end(&self, name: u32) -> bool {
        self.inside().words.remove(&name).is_some()
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_fd_is_claimed_once_or_ends() {
        let fds = SessionFds::default();
        let words: [Arc<AtomicU64>; 2] = Default::default();
        let names = words.each_ref().map(|word| fds.add(word));
        assert!(fds.claim(names[0], 7));
        assert!(!fds.claim(names[0], 8), "it is not free any more");
        assert!(!fds.end(names[0]));
        assert_eq!(words[0].load(Ordering::Relaxed), 7);
        assert!(fds.end(names[1]));
        assert!(!fds.claim(names[1], 9), "nobody holds it any more");
        assert_eq!(words[1].load(Ordering::Relaxed), 0);
        assert_eq!(fds.room(), MAX_AHEAD);
    }

    #[test]
    fn no_more_are_free_than_may_be() {
        let fds = SessionFds::default();
        let names: Vec<u32> = (0..MAX_AHEAD).map(|_| fds.add(&Arc::default())).collect();
        assert_eq!(fds.room(), 0);
        assert!(fds.end(names[3]));
        assert_eq!(fds.room(), 1);
    }
}
