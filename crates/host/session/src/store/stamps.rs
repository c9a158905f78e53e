//! When bytes of a stream came, left and were acknowledged, for programs that ask (SO_TIMESTAMP,
//! SO_TIMESTAMPING). Both stores note it where they see the bytes, by the calendar that the stack
//! tells them; where nobody asks there is nothing of this.

use std::collections::VecDeque;

use clearway_options::stamping::{TX_ACK, TX_SCHED, TX_SOFTWARE};
use clearway_shm::attach_socket::FifoPlace;
use clearway_shm::layout::StampRecord;
use clearway_shm::{Consumer, Producer};

use super::fifo_blocks::FifoBlocks;
use crate::memory::Memory;

/// Bytes of the FIFO of stamps between process and host, either way: 1024 of them.
const LEN: u32 = 1024 * size_of::<StampRecord>() as u32;

/// Marks of bytes that were not acknowledged, and stamps that were not asked for, at most. What
/// comes beyond is not told.
const MOST: usize = 1024;

/// Which of a mark's times a stamp is (`SCM_TSTAMP_*` of `linux/errqueue.h`).
const SENT: u32 = 0;
const SCHEDULED: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

/// When bytes came.
pub(super) struct Arrivals {
    end: Producer,
    blocks: FifoBlocks,
    /// There was no room for this one: it goes on to stand for all bytes that come until there is.
    late: Option<StampRecord>,
}

impl Arrivals {
    /// From now on, for a stream that has come to that position of its FIFO. None: the program has
    /// no memory for it.
    pub(super) fn begin(memory: &Memory, position: u32) -> Option<Arrivals> {
        let blocks = FifoBlocks::take(memory, LEN)?;
        let end = Producer::new(blocks.mem.clone());
        let mut arrivals = Arrivals { end, blocks, late: None };
        // Of what is there nobody knows when it came.
        arrivals.came(position, 0);
        Some(arrivals)
    }

    /// All bytes before this position are there, the last of them since `at`. Called before the
    /// process can see them.
    pub(super) fn came(&mut self, end: u32, at: u64) {
        let record = StampRecord::new(at, end);
        if !self.catch_up() || !self.push(record) {
            self.late = Some(record);
        }
    }

    /// Puts in what there was no room for. False: there is none still.
    pub(super) fn catch_up(&mut self) -> bool {
        if let Some(late) = self.late.take() {
            if !self.push(late) {
                self.late = Some(late);
                return false;
            }
        }
        true
    }

    /// A program that lies about its positions gets no stamps; there is nothing else in it for
    /// anybody.
    fn push(&mut self, record: StampRecord) -> bool {
        let pushed = self.end.push_stamp(record).unwrap_or(false);
        if pushed {
            let len = size_of::<StampRecord>() as u32;
            self.blocks.touch(self.end.offset(0).wrapping_sub(len), len);
        }
        pushed
    }

    pub(super) fn place(&self) -> FifoPlace {
        self.blocks.place
    }
}

/// Bytes of which it is to be told that they have left.
struct Mark {
    /// Where in the stream's FIFO they end.
    end: u32,
    key: u32,
    flags: u32,
    has_left: bool,
}

/// A time of something that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentAt {
    /// `SCM_TSTAMP_*`.
    pub kind: u32,
    /// Its number.
    pub key: u32,
    /// Nanoseconds since the start of 1970.
    pub at: u64,
}

/// What is to be told of bytes that are sent.
pub(super) struct Departures {
    end: Consumer,
    blocks: FifoBlocks,
    waiting: VecDeque<Mark>,
    done: VecDeque<SentAt>,
}

impl Departures {
    pub(super) fn begin(memory: &Memory) -> Option<Departures> {
        let blocks = FifoBlocks::take(memory, LEN)?;
        let end = Consumer::new(blocks.mem.clone());
        Some(Departures { end, blocks, waiting: VecDeque::new(), done: VecDeque::new() })
    }

    /// Takes what the process has marked. It does so before it publishes the bytes.
    fn take_marks(&mut self) {
        if let Ok(len) = self.end.len() {
            self.blocks.touch(self.end.offset(0), len);
        }
        // What is nonsense marks nothing.
        while let Ok(Some(record)) = self.end.stamp_behind(0) {
            self.end.consume_stamps(1);
            if self.waiting.len() < MOST {
                let (key, flags) = (record.what as u32, (record.what >> 32) as u32);
                self.waiting.push_back(Mark { end: record.end, key, flags, has_left: false });
            }
        }
    }

    /// All bytes before this position have left now, or before. True: there is something to tell.
    pub(super) fn left(&mut self, position: u32, at: u64) -> bool {
        self.take_marks();
        let Departures { waiting, done, .. } = self;
        let before = done.len();
        let new = waiting.iter_mut().filter(|mark| !mark.has_left);
        for mark in new.take_while(|mark| is_before(mark.end, position)) {
            mark.has_left = true;
            for (flag, kind) in [(TX_SCHED, SCHEDULED), (TX_SOFTWARE, SENT)] {
                if mark.flags & flag != 0 && done.len() < MOST {
                    done.push_back(SentAt { kind, key: mark.key, at });
                }
            }
        }
        done.len() > before
    }

    /// The peer has acknowledged all bytes before this position. True: there is something to tell.
    pub(super) fn acknowledged(&mut self, position: u32, at: u64) -> bool {
        self.take_marks();
        let before = self.done.len();
        while self.waiting.front().is_some_and(|mark| is_before(mark.end, position)) {
            let Some(mark) = self.waiting.pop_front() else { break };
            if mark.flags & TX_ACK != 0 && self.done.len() < MOST {
                self.done.push_back(SentAt { kind: ACKNOWLEDGED, key: mark.key, at });
            }
        }
        self.done.len() > before
    }

    pub(super) fn waiting_to_be_told(&self) -> u32 {
        self.done.len() as u32
    }

    pub(super) fn next(&mut self) -> Option<SentAt> {
        self.done.pop_front()
    }

    pub(super) fn place(&self) -> FifoPlace {
        self.blocks.place
    }
}

/// Whether what ends there lies before this position: half of the circle does.
fn is_before(end: u32, position: u32) -> bool {
    position.wrapping_sub(end) < 1 << 31
}

#[cfg(test)]
mod tests;
