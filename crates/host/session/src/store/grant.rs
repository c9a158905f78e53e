//! How much of a FIFO may be filled: little at first, when there are many, and twice as much
//! whenever as much went through it, as far as memory allows. A peer that takes nothing, or a
//! program that reads nothing, holds no more than what it began with.

use std::cell::Cell;

use crate::memory::Account;

/// What one FIFO is granted, and what went through it.
pub(super) struct Grant {
    granted: Cell<u32>,
    /// Bytes that have left it, modulo 2^32.
    moved: Cell<u32>,
    /// The value of `moved` when it was granted more.
    since: Cell<u32>,
    /// The value of `moved` when somebody looked how it gets on.
    looked: Cell<u32>,
}

/// How a FIFO gets on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Bytes of memory that it has.
    pub held: u64,
    /// Bytes that have left it since the last look.
    pub moved: u32,
}

impl Grant {
    pub(super) fn new(account: &Account, limit: u32, least: u32) -> Grant {
        let granted = account.first(limit).max(least.min(limit));
        Grant {
            granted: Cell::new(granted),
            moved: Cell::new(0),
            since: Cell::new(0),
            looked: Cell::new(0),
        }
    }

    /// How much may be in it now.
    pub(super) fn now(&self) -> u32 {
        self.granted.get()
    }

    /// So many bytes have left it. True: it was granted more.
    #[inline]
    pub(super) fn moved(&self, bytes: u32, account: &Account, limit: u32) -> bool {
        self.moved.set(self.moved.get().wrapping_add(bytes));
        if self.granted.get() >= limit
            || self.moved.get().wrapping_sub(self.since.get()) < self.granted.get()
        {
            return false;
        }
        self.grow(account, limit)
    }

    #[cold]
    fn grow(&self, account: &Account, limit: u32) -> bool {
        self.since.set(self.moved.get());
        let before = self.granted.get();
        let wanted = before.saturating_mul(2).min(account.cap(limit));
        self.granted.set(wanted.max(before));
        wanted > before
    }

    /// Memory is short: no more than what everybody may have, as far as nothing was promised.
    pub(super) fn shrink(&self, account: &Account, limit: u32, least: u32) {
        let most = account.cap(limit).max(least.min(limit));
        self.granted.set(self.granted.get().min(most));
    }

    /// What has left it since this was asked last.
    pub(super) fn look(&self) -> u32 {
        self.moved.get().wrapping_sub(self.looked.replace(self.moved.get()))
    }
}
