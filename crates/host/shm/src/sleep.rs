//! Going to sleep without missing a message, and notifying only for who sleeps.
//!
//! ```text
//! sleeper   word = 1 (or + 1)      fence   look at everything once more   sleep
//! remote notifier    put the message there  fence   look at the word               ring when it is not 0
//! ```
//!
//! One of the two fences comes first. If it is the sleeper's, the remote notifier sees the word; if it is the remote notifier's, the sleeper sees the message.

use crate::atomic::{AtomicU32, Ordering, fence};

/// One more is about to sleep. What it waits for must be looked at once more after this call, and before it sleeps.
pub fn about_to_sleep(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// One is awake again, or did not sleep after all.
pub fn awake(word: &AtomicU32) {
    word.fetch_sub(1, Ordering::Relaxed);
}

/// Nobody sleeps: for a word with one sleeper only, whatever stood there.
pub fn all_awake(word: &AtomicU32) {
    word.store(0, Ordering::Relaxed);
}

/// After a message was left: whether somebody sleeps, or is about to, who did not see it. Only reads the word.
pub fn is_asleep(word: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0
}
