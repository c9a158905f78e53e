//! Who holds how much of the shared memory: the host, each namespace, each program. What one
//! charges, those above it are charged with.
//!
//! One may have as much as its limit says, and no more than what is left to others where it
//! belongs: a program as much as the namespace has free besides, a namespace as much as the host.
//! Besides, a part of the host's is kept for what each program is guaranteed, so that whoever comes
//! finds something, however greedy those are who are there, and however many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use clearway_proto::store::lending::Lending;

/// The least that each FIFO may hold, whatever others have: what a stuck peer costs at most under
/// shortage.
const LEAST: u64 = 16 * 1024;

/// A new FIFO may hold as much of what is free as if there were so many times as many as there are.
const CAUTION: u64 = 8;

/// One part in so many of what the host has is kept for what each program is guaranteed.
pub const KEPT: u64 = 4;

/// Bytes of shared memory that the host, a namespace or a program has.
pub struct Account {
    used: AtomicU64,
    /// FIFOs that share it.
    fifos: AtomicU32,
    limit: u64,
    /// What it may have whatever others have; a program's.
    guarantee: u64,
    parent: Option<Arc<Account>>,
}

impl Account {
    /// The host's own.
    pub fn host(limit: u64) -> Arc<Account> {
        Arc::new(Account {
            used: AtomicU64::new(0),
            fifos: AtomicU32::new(0),
            limit,
            guarantee: 0,
            parent: None,
        })
    }

    /// One within another.
    pub fn within(parent: &Arc<Account>, limit: u64, guarantee: u64) -> Arc<Account> {
        let (limit, parent) = (limit.min(parent.limit), Some(Arc::clone(parent)));
        Arc::new(Account {
            used: AtomicU64::new(0),
            fifos: AtomicU32::new(0),
            limit,
            guarantee,
            parent,
        })
    }

    /// What is lent, of its limit: the host keeps a part for guarantees.
    fn lends(&self) -> u64 {
        if self.parent.is_none() { self.limit - self.limit / KEPT } else { self.limit }
    }

    fn lendable(&self) -> u64 {
        let used = self.used();
        let own = self.lends().saturating_sub(used);
        self.parent.as_ref().map_or(own, |parent| own.min(parent.lendable().saturating_sub(used)))
    }

    fn levels(&self) -> impl Iterator<Item = &Account> {
        std::iter::successors(Some(self), |level| level.parent.as_deref())
    }

    pub(super) fn charge(&self, bytes: u64) {
        for level in self.levels() {
            level.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn discharge(&self, bytes: u64) {
        for level in self.levels() {
            level.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// One more FIFO is charged here.
    pub fn add_fifo(&self) {
        self.fifos.fetch_add(1, Ordering::Relaxed);
    }

    /// One FIFO less.
    pub fn remove_fifo(&self) {
        self.fifos.fetch_sub(1, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// How many there may be.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// What it may have more: what is guaranteed, and no more than there would be left where it
    /// belongs.
    pub fn free(&self) -> u64 {
        let hard =
            self.levels().map(|level| level.limit.saturating_sub(level.used())).min().unwrap_or(0);
        self.lendable().max(self.guarantee.saturating_sub(self.used())).min(hard)
    }

    /// What it can have at most when it is alone.
    pub fn capacity(&self) -> u64 {
        self.parent.as_ref().map_or(self.lends(), |parent| self.limit.min(parent.capacity() / 2))
    }

    /// Nothing at all is left, not even for another minimum.
    pub fn is_full(&self) -> bool {
        self.levels().any(|level| level.used() >= level.limit)
    }

    /// Memory is short: who holds much and moves little has to go.
    pub fn is_short(&self) -> bool {
        Lending::new(self.capacity(), 0).is_short(self.free())
    }

    /// The most that one FIFO of this limit may hold now.
    pub fn cap(&self, limit: u32) -> u32 {
        let cap = Lending::new(self.capacity(), limit.into()).cap(self.free());
        cap.clamp(LEAST.min(limit.into()), limit.into()) as u32
    }

    /// What a FIFO of this limit may hold before anything was moved through it.
    pub fn first(&self, limit: u32) -> u32 {
        let sharers = u64::from(self.fifos.load(Ordering::Relaxed)) + 1;
        let share = self.free() / (CAUTION * sharers);
        share.clamp(LEAST.min(limit.into()), limit.into()) as u32
    }
}

/// Bytes of the host's own memory that somebody's things take, charged as shared memory is. Given
/// back when this is dropped.
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Charge {
    /// Nothing yet.
    pub fn to(account: &Arc<Account>) -> Charge {
        Charge { account: Arc::clone(account), bytes: 0 }
    }

    /// So many they are now.
    #[inline]
    pub fn set(&mut self, bytes: u64) {
        if bytes != self.bytes {
            self.change(bytes);
        }
    }

    #[cold]
    fn change(&mut self, bytes: u64) {
        self.account.charge(bytes);
        self.account.discharge(self.bytes);
        self.bytes = bytes;
    }

    /// How many they are.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.discharge(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn alone(limit: u64) -> Arc<Account> {
        Account::within(&Account::within(&Account::host(limit), u64::MAX, 0), u64::MAX, 0)
    }

    #[test]
    fn however_many_greedy_ones_there_are_each_has_what_is_guaranteed() {
        const GUARANTEE: u64 = 64 << 20;
        let host = Account::host(8 * GIB);
        let space = Account::within(&host, u64::MAX, 0);
        let mut had = Vec::new();
        for _ in 0..32 {
            let program = Account::within(&space, u64::MAX, GUARANTEE);
            while program.free() >= 1 << 20 {
                program.charge(1 << 20);
            }
            had.push(program.used());
        }
        assert!(
            (had[0] as i64 - 2 * GIB as i64).abs() < 4 << 20,
            "alone it has a third of what is lent: {had:?}"
        );
        assert!(had[1] >= GIB / 2 && had.iter().all(|had| *had >= GUARANTEE), "{had:?}");
        let elsewhere = Account::within(&Account::within(&host, u64::MAX, 0), u64::MAX, 0);
        assert!(
            elsewhere.free() >= GIB,
            "another namespace has its part still: {}",
            elsewhere.free()
        );
    }

    #[test]
    fn what_is_charged_is_charged_above_too_and_given_back() {
        let host = Account::host(GIB);
        let program = Account::within(&Account::within(&host, GIB / 2, 0), GIB / 4, 0);
        program.charge(1000);
        assert_eq!((host.used(), program.used()), (1000, 1000));
        program.charge(GIB);
        assert!(program.is_full() && program.is_short() && program.free() == 0);
        program.discharge(GIB + 1000);
        assert_eq!((host.used(), program.used()), (0, 0));
    }

    #[test]
    fn a_charge_follows_what_it_stands_for() {
        let host = Account::host(GIB);
        let program = Account::within(&Account::within(&host, GIB / 2, 0), GIB / 4, 0);
        let mut charge = Charge::to(&program);
        for bytes in [5000, 5000, 300, 0, 7000] {
            charge.set(bytes);
            assert_eq!((host.used(), program.used(), charge.bytes()), (bytes, bytes, bytes));
        }
        drop(charge);
        assert_eq!((host.used(), program.used()), (0, 0));
    }

    #[test]
    fn a_new_fifo_has_all_while_there_are_few_and_little_beside_many() {
        let program = alone(6 * GIB);
        assert_eq!((program.first(1 << 20), program.cap(1 << 20)), (1 << 20, 1 << 20));
        (0..100_000).for_each(|_| program.add_fifo());
        assert_eq!((program.first(1 << 20), program.first(4096)), (16 << 10, 4096));
        program.charge(3 * GIB);
        assert_eq!(program.cap(1 << 20), 16 << 10, "the minimum is everybody's");
    }
}
