//! MSG_ZEROCOPY: bytes are copied into the FIFO before the call returns, so what is told of their
//! completion is that they were copied.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Socket;
use crate::ready::ALL;

/// The sends of one socket that asked for it, in this process.
#[derive(Default)]
pub(crate) struct Completions {
    waits: AtomicBool,
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    /// The number of the next send.
    next: u32,
    /// The first and the last that the program was not told of. All in between are done too, so
    /// that one range says it all.
    done: Option<(u32, u32)>,
}

impl Completions {
    /// There is something to tell (POLLERR).
    pub(crate) fn wait(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    fn add(&self) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.next;
        numbers.next = number.wrapping_add(1);
        numbers.done = Some((numbers.done.map_or(number, |(first, _)| first), number));
        self.waits.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<(u32, u32)> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        self.waits.store(false, Ordering::Release);
        numbers.done.take()
    }
}

impl Socket {
    /// A send with MSG_ZEROCOPY took bytes, and the program's memory is its own again.
    pub fn complete_zero_copy(&self) {
        self.core.completions.add();
        self.client.hub().mark(self.core.key, ALL);
    }

    /// The numbers of the first and the last send of that kind that are done and were not told yet.
    pub fn zero_copy_completion(&self) -> Option<(u32, u32)> {
        if self.core.completions.wait() { self.core.completions.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_that_nobody_asked_for_are_one_range() {
        let completions = Completions::default();
        assert!(!completions.wait());
        (0..3).for_each(|_| completions.add());
        assert!(completions.wait());
        assert_eq!((completions.take(), completions.take()), (Some((0, 2)), None));
        assert!(!completions.wait());
        completions.add();
        assert_eq!(completions.take(), Some((3, 3)));
    }
}
