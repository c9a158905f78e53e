//! A listening session's part in the stack: its listener, and the FIFO of records of connections
//! that wait to be accepted.

use std::collections::{HashSet, VecDeque};

use clearway_proto::ListenerId;
use clearway_shm::attach_socket::{FifoPlace, SessionId};
use clearway_shm::layout::AcceptRecord;
use clearway_shm::{Hostile, Producer};

use crate::quota::Permit;
use crate::store::FifoBlocks;

/// Bytes of a record.
pub(super) const RECORD: u32 = size_of::<AcceptRecord>() as u32;

/// The SYN-ACK's timeouts that so many seconds take, as Linux counts them for TCP_DEFER_ACCEPT: one
/// second, then twice as long each, two minutes at most.
pub(super) fn timeouts(seconds: u32) -> u8 {
    let (mut count, mut wait, mut passed) = (0u8, 1, 0u32);
    while passed < seconds && count < u8::MAX {
        count += 1;
        passed += wait;
        wait = (wait * 2).min(120);
    }
    count
}

/// A listening session's part in the stack.
pub(super) struct Listening {
    pub(super) listener: ListenerId,
    pub(super) end: Producer,
    pub(super) blocks: FifoBlocks,
    pub(super) _permit: Permit,
    /// Connections that may wait on each worker.
    pub(super) backlog: u32,
    /// The records that were written of sessions that no process has claimed.
    pub(super) waiting: Vec<AcceptRecord>,
    /// Records in the FIFO, and perhaps some before them that were taken out.
    pub(super) left: VecDeque<SessionId>,
    /// Sessions whose records were taken out by a process that died, as far as can be known, and
    /// that get new ones.
    pub(super) again: Vec<SessionId>,
    /// Some of its processes were woken for what waits, and not all.
    pub(super) is_partly_woken: bool,
}

impl Listening {
    pub(super) fn place(&self) -> FifoPlace {
        self.blocks.place
    }

    /// Connections that wait, and how many may.
    pub(super) fn fill(&self) -> (u32, u32) {
        (self.waiting.len() as u32, self.blocks.place.limit / RECORD)
    }

    /// So many records may wait.
    pub(super) fn limit_to(&mut self, records: u32) {
        self.blocks.place.limit = records * RECORD;
        self.end.set_limit(records * RECORD);
    }

    pub(super) fn claimed(&mut self, child: SessionId) {
        self.waiting.retain(|record| record.session != child);
        self.again.retain(|id| *id != child);
    }

    pub(super) fn leave(&mut self, record: AcceptRecord) -> Result<bool, Hostile> {
        let is_there = self.end.push_accept(record)?;
        if is_there {
            self.blocks.touch(self.end.offset(0).wrapping_sub(RECORD), RECORD);
            self.left.push_back(record.session);
            self.forget_taken()?;
        }
        Ok(is_there)
    }

    /// Forgets records that were taken out.
    pub(super) fn forget_taken(&mut self) -> Result<(), Hostile> {
        let inside = (self.end.len()? / RECORD) as usize;
        let taken = self.left.len().saturating_sub(inside);
        drop(self.left.drain(..taken));
        Ok(())
    }

    /// The connection that has waited in the FIFO for longest.
    pub(super) fn oldest(&mut self) -> Option<SessionId> {
        // A position that is impossible is found when the next record is left.
        self.forget_taken().ok()?;
        self.left.front().copied()
    }

    /// A process of the program died. Sessions that wait and have no record in the FIFO were
    /// perhaps in its hands: whoever is first to claim one has it.
    pub(super) fn recover(&mut self) -> Result<(), Hostile> {
        self.forget_taken()?;
        let known: HashSet<SessionId> = self.left.iter().chain(&self.again).copied().collect();
        let waiting = self.waiting.iter().map(|record| record.session);
        self.again.extend(waiting.filter(|id| !known.contains(id)));
        Ok(())
    }

    /// Leaves records of what was lost, as many as fit. Answers how many there were.
    pub(super) fn leave_again(&mut self) -> Result<u32, Hostile> {
        let mut left = 0;
        while let Some(child) = self.again.first().copied() {
            if self.end.room()? < RECORD {
                self.end.ask_room();
                if self.end.room()? < RECORD {
                    break;
                }
            }
            self.again.remove(0);
            if let Some(record) =
                self.waiting.iter().find(|record| record.session == child).copied()
            {
                left += u32::from(self.leave(record)?);
            }
        }
        Ok(left)
    }

    /// Whether one more record fits.
    pub(super) fn has_room(&mut self) -> Result<bool, Hostile> {
        if self.waiting.len() as u32 >= self.blocks.place.limit / RECORD {
            return Ok(false);
        }
        if self.end.room()? >= RECORD {
            return Ok(true);
        }
        self.end.ask_room();
        Ok(self.end.room()? >= RECORD)
    }
}
