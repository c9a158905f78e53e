//! How many of each thing a program, its namespace and the host may have, and have.
//!
//! Each has a limit at each of the three levels. Besides, nobody takes more than is left to others
//! where it belongs: one program of a namespace as many as the namespace has free besides, one
//! namespace as many as the host. And a quarter of what the host has is kept for what each program
//! is guaranteed: its part of that quarter, when there are as many programs as there may be. So
//! whoever comes finds something, however greedy those are who are there, and however many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::{Account, KEPT};

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thing {
    /// Sockets of all kinds, connections that wait to be accepted among them. Each has a descriptor
    /// of the host's.
    Session,
    /// UDP sockets.
    UdpSocket,
    /// Sockets that listen.
    Listener,
    /// Processes. Each has a queue pair.
    Process,
}

impl Thing {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Thing; 4] = [Thing::Session, Thing::UdpSocket, Thing::Listener, Thing::Process];

    /// As the settings call it.
    pub fn name(self) -> &'static str {
        match self {
            Thing::Session => "sessions",
            Thing::UdpSocket => "udp-sockets",
            Thing::Listener => "listeners",
            Thing::Process => "processes",
        }
    }
}

/// How many there may be of each thing.
pub type Limits = [u32; Thing::ALL.len()];

/// What one level has: the host, a namespace, or a program.
pub struct Quota {
    name: String,
    level: &'static str,
    counts: [AtomicU32; Thing::ALL.len()],
    limits: Limits,
    /// What it may have whatever others have; a program's.
    guarantees: Limits,
    /// Programs that there may be, among which the host divides what it keeps.
    programs: u32,
    memory: Arc<Account>,
    parent: Option<Arc<Quota>>,
}

/// What one level has, as `show limits` tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaInfo {
    /// `host`, `namespace` or `program`.
    pub level: &'static str,
    /// Whose it is.
    pub name: String,
    /// A program's number.
    pub app: Option<u32>,
    /// One for each thing.
    pub rows: Vec<QuotaRow>,
}

/// One thing of a [`QuotaInfo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaRow {
    /// What is counted; memory in bytes.
    pub thing: &'static str,
    /// How many there are.
    pub used: u64,
    /// How many there may be.
    pub limit: u64,
    /// How many more there can be now, with what is left to others.
    pub free: u64,
}

/// Why one more is not to be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scarce {
    thing: Thing,
    level: &'static str,
    is_limit: bool,
}

impl std::fmt::Display for Scarce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (thing, level) = (self.thing.name(), self.level);
        let key = match level {
            "host" => format!("limits.{thing}"),
            "namespace" => format!("namespaces.{thing}"),
            _ => format!("limits.program-{thing}"),
        };
        match self.is_limit {
            true => write!(f, "the {level} has all {thing} that it may ({key}; see `show limits`)"),
            false => write!(
                f,
                "the {thing} that are left are for others than this {level} (see `show limits`)"
            ),
        }
    }
}

impl Quota {
    /// The host's.
    pub fn host(limits: Limits, memory: u64, programs: u32) -> Arc<Quota> {
        Arc::new(Quota {
            name: "host".into(),
            level: "host",
            counts: Default::default(),
            limits,
            guarantees: Limits::default(),
            programs: programs.max(1),
            memory: Account::host(memory),
            parent: None,
        })
    }

    /// That of a namespace of the host, or of a program of a namespace.
    pub fn within(parent: &Arc<Quota>, name: String, limits: Limits, memory: u64) -> Arc<Quota> {
        let is_program = parent.parent.is_some();
        let level = if is_program { "program" } else { "namespace" };
        let host = parent.levels().last().unwrap_or(parent);
        let part = |of: u64| if is_program { of / KEPT / u64::from(host.programs) } else { 0 };
        let least = |of: u32| if is_program { part(of.into()).max(1) as u32 } else { 0 };
        Arc::new(Quota {
            name,
            level,
            counts: Default::default(),
            limits: std::array::from_fn(|at| limits[at].min(parent.limits[at])),
            guarantees: host.limits.map(least),
            programs: parent.programs,
            memory: Account::within(&parent.memory, memory, part(host.memory.limit())),
            parent: Some(Arc::clone(parent)),
        })
    }

    /// Whose it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many it has.
    pub fn count(&self, thing: Thing) -> u32 {
        self.counts[thing as usize].load(Ordering::Acquire)
    }

    /// How many it may have.
    pub fn limit(&self, thing: Thing) -> u32 {
        self.limits[thing as usize]
    }

    /// How many more it can have now.
    pub fn free(&self, thing: Thing) -> u32 {
        let left = |level: &Quota| level.limit(thing).saturating_sub(level.count(thing));
        let guaranteed = self.guarantees[thing as usize].saturating_sub(self.count(thing));
        self.lendable(thing).max(guaranteed).min(self.levels().map(left).min().unwrap_or(0))
    }

    /// How many more are not kept for others.
    fn lendable(&self, thing: Thing) -> u32 {
        let (limit, count) = (self.limit(thing), self.count(thing));
        let lends = if self.parent.is_none() { limit - limit / KEPT as u32 } else { limit };
        let own = lends.saturating_sub(count);
        let left = |parent: &Arc<Quota>| parent.lendable(thing).saturating_sub(count);
        self.parent.as_ref().map_or(own, |parent| own.min(left(parent)))
    }

    /// Its memory.
    pub fn memory(&self) -> &Arc<Account> {
        &self.memory
    }

    /// What it has and may have of each thing, memory last, for people.
    pub fn info(&self, app: Option<u32>) -> QuotaInfo {
        let row = |thing: Thing| QuotaRow {
            thing: thing.name(),
            used: self.count(thing).into(),
            limit: self.limit(thing).into(),
            free: self.free(thing).into(),
        };
        let (memory, mut rows) = (&self.memory, Thing::ALL.map(row).to_vec());
        rows.push(QuotaRow {
            thing: "memory",
            used: memory.used(),
            limit: memory.limit(),
            free: memory.free(),
        });
        QuotaInfo { level: self.level, name: self.name.clone(), app, rows }
    }

    fn levels(&self) -> impl Iterator<Item = &Quota> {
        std::iter::successors(Some(self), |level| level.parent.as_deref())
    }

    fn why_not(&self, thing: Thing) -> Scarce {
        let full = self.levels().find(|level| level.count(thing) >= level.limit(thing));
        let scarce = full.or_else(|| self.levels().find(|level| level.free(thing) == 0));
        Scarce { thing, level: scarce.unwrap_or(self).level, is_limit: full.is_some() }
    }
}

/// One of the things that a program may have so many of. Given back when dropped.
pub struct Permit {
    quota: Arc<Quota>,
    thing: Thing,
}

impl Permit {
    /// One more, counted at every level.
    pub fn take(quota: &Arc<Quota>, thing: Thing) -> Result<Permit, Scarce> {
        if quota.free(thing) == 0 {
            return Err(quota.why_not(thing));
        }
        // Another thread may have been quicker; the limits hold all the same.
        for (taken, level) in quota.levels().enumerate() {
            let limit = level.limit(thing);
            let more = |n: u32| (n < limit).then_some(n + 1);
            if level.counts[thing as usize]
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
                .is_err()
            {
                quota.levels().take(taken).for_each(|level| level.give(thing));
                return Err(quota.why_not(thing));
            }
        }
        Ok(Permit { quota: Arc::clone(quota), thing })
    }
}

impl Quota {
    fn give(&self, thing: Thing) {
        self.counts[thing as usize].fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.quota.levels().for_each(|level| level.give(self.thing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(of: u32) -> Limits {
        [of; Thing::ALL.len()]
    }

    #[test]
    fn however_many_programs_take_all_they_can_get_each_other_finds_some() {
        const PROGRAMS: u32 = 16;
        let host = Quota::host(all(1024), 1 << 30, PROGRAMS);
        let space = Quota::within(&host, "default".into(), all(u32::MAX), u64::MAX);
        let mut kept = Vec::new();
        for number in 0..PROGRAMS {
            let program =
                Quota::within(&space, format!("greedy-{number}"), all(u32::MAX), u64::MAX);
            while let Ok(permit) = Permit::take(&program, Thing::UdpSocket) {
                kept.push(permit);
            }
            let count = program.count(Thing::UdpSocket);
            assert!(count >= 16, "program {number} found {count}");
            assert!(number > 0 || count == 256, "alone it has a third of what is lent: {count}");
            assert!(!Permit::take(&program, Thing::UdpSocket).err().unwrap().is_limit);
        }
        assert!(host.count(Thing::UdpSocket) <= 1024);
        drop(kept);
        assert_eq!((host.count(Thing::UdpSocket), space.count(Thing::UdpSocket)), (0, 0));
    }

    #[test]
    fn every_level_has_its_limit_and_says_whose_it_is() {
        let host = Quota::host(all(100), 1 << 30, 4);
        let space = Quota::within(&host, "a".into(), all(8), u64::MAX);
        let program = Quota::within(&space, "p".into(), all(2), u64::MAX);
        let take = |program: &Arc<Quota>| Permit::take(program, Thing::Listener);
        let _kept = (take(&program).unwrap(), take(&program).unwrap());
        assert!(take(&program).err().unwrap().to_string().contains("limits.program-listeners"));
        let second = Quota::within(&space, "q".into(), all(50), u64::MAX);
        let more: Vec<_> = std::iter::from_fn(|| take(&second).ok()).collect();
        assert_eq!(more.len(), 6, "guarantees hold in a namespace, up to its limit");
        let why = take(&second).err().unwrap().to_string();
        assert!(why.contains("namespaces.listeners"), "{why}");
        assert_eq!((host.count(Thing::Listener), host.count(Thing::Session)), (8, 0));
    }
}
