//! Going to sleep without missing a message, and notifying only for who sleeps.
//!
//! ```text
//! sleeper   word = 1 (or + 1)      fence   look at everything once more   sleep
//! remote notifier    put the message there  fence   look at the word               ring when it is not 0
//! ```
//!
//! One of the two fences comes first. If it is the sleeper's, the remote notifier sees the word; if
//! it is the remote notifier's, the sleeper sees the message.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// One more is about to sleep. What it waits for must be looked at once more after this call, and
/// before it sleeps.
pub fn about_to_sleep(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// One is awake again, or did not sleep after all.
pub fn awake(word: &AtomicU32) {
    word.fetch_sub(1, Ordering::Relaxed);
}

/// The only sleeper of this word, which nobody else writes, is about to sleep. As
/// [`about_to_sleep`]; the word is odd from now on, and was never the same before.
pub fn doze(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// It is awake again, or did not sleep after all. What was left for it must be looked at after this
/// call: who rang for this sleep before rings for it no more.
pub fn rise(word: &AtomicU64) {
    word.store((word.load(Ordering::Relaxed) | 1).wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// As [`is_asleep`], for such a word: which sleep it is. Who has notified this one need not do
/// so again, whatever it leaves: it is looked at after [`rise`].
pub fn which_sleep(word: &AtomicU64) -> Option<u64> {
    fence(Ordering::SeqCst);
    Some(word.load(Ordering::Relaxed)).filter(|word| word & 1 != 0)
}

/// After a message was left: whether somebody sleeps, or is about to, who did not see it. Only
/// reads the word.
pub fn is_asleep(word: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0
}
