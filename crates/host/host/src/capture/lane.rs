//! Packets on their way from one worker to the thread that writes them down.
//!
//! A lane has two sides, and says which of them is open. The worker puts a packet into the open
//! one; the writing thread opens the other before it empties the one that was open. A worker that
//! holds a side asks once more whether it is open: the writing thread closes a side before it locks
//! it, so what was put in before comes out with this side, and what comes later goes into the
//! other. So the worker never waits, a side that is closed and was emptied stays empty, and packets
//! come out in the order in which they went in.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use clearway_dev::pcap::{Direction, InterfaceCounts};
use clearway_pkt::Iface;
use clearway_proto::Drop as Reason;

use crate::outcome::locked;

/// Bytes of packets that wait in one side of a lane at most.
const SIDE_BYTES: usize = 8 << 20;

/// Packets that wait there at most.
const SIDE_PACKETS: usize = 65_536;

/// How often a worker looks for the side that is open before the packet counts as lost. The second
/// try finds it, but where the writing thread has taken once more in between.
const MOST_TRIES: usize = 8;

/// What is so of a packet.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) iface: Iface,
    pub(super) ethernet: bool,
    pub(super) unix_ns: u64,
    pub(super) direction: Direction,
    pub(super) original_len: usize,
    pub(super) note: Note,
    /// How often interfaces had been named anew when it passed.
    pub(super) naming: u32,
}

/// Why a packet was dropped, if it was.
#[derive(Clone, Copy)]
pub(super) enum Note {
    None,
    Dropped(Reason),
    Denied(usize),
}

/// Packets that were taken together.
pub(super) struct Batch {
    /// Each with the number of its bytes that were kept.
    records: Vec<(Record, usize)>,
    bytes: Vec<u8>,
    /// By the number of the interface.
    counts: Vec<(bool, InterfaceCounts)>,
}

impl Default for Batch {
    /// With all the room it will ever have, so that a worker allocates nothing; what is never used
    /// costs no memory.
    fn default() -> Batch {
        Batch {
            records: Vec::with_capacity(SIDE_PACKETS),
            bytes: Vec::with_capacity(SIDE_BYTES),
            counts: Vec::new(),
        }
    }
}

impl Batch {
    fn take(&mut self, record: &Record, kept: Option<&[u8]>) -> bool {
        let at = usize::from(record.iface.0);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, Default::default());
        }
        let (ethernet, counts) = &mut self.counts[at];
        *ethernet = record.ethernet;
        counts.seen += 1;
        let Some(bytes) = kept else { return true };
        counts.fitting += 1;
        if self.records.len() >= SIDE_PACKETS || self.bytes.len() + bytes.len() > SIDE_BYTES {
            counts.lost += 1;
            return false;
        }
        self.records.push((*record, bytes.len()));
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Packets that are in it.
    pub(super) fn records(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.records.iter().map(move |(record, len)| {
            let (bytes, more) = rest.split_at(*len);
            rest = more;
            (record, bytes)
        })
    }

    /// What interfaces had meanwhile: number, whether its frames are Ethernet's, and how many.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Iface, bool, &InterfaceCounts)> {
        let seen = self.counts.iter().enumerate().filter(|(_, (_, counts))| counts.seen > 0);
        seen.map(|(at, (ethernet, counts))| (Iface(at as u16), *ethernet, counts))
    }

    fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
        self.counts.clear();
    }
}

/// Packets of one worker for one capture.
#[derive(Default)]
pub(super) struct Lane {
    sides: [Mutex<Batch>; 2],
    /// The side that packets are put into; changed by who takes alone. Relaxed: the lock of a side
    /// orders it, since who takes changes it before locking.
    open: AtomicUsize,
    /// Packets that found no room.
    lost: AtomicU64,
}

impl Lane {
    /// Puts a packet in, and counts it; None for its bytes when the filter does not want it. For
    /// one thread at a time.
    pub(super) fn put(&self, record: &Record, kept: Option<&[u8]>) {
        if !self.open_side().is_some_and(|mut side| side.take(record, kept)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The open side, held. None when who takes was quicker each time.
    fn open_side(&self) -> Option<MutexGuard<'_, Batch>> {
        (0..MOST_TRIES).find_map(|_| {
            let open = self.open.load(Ordering::Relaxed);
            // A side that is held is being closed, or was closed meanwhile: the other is open.
            free(&self.sides[open]).filter(|_| self.open.load(Ordering::Relaxed) == open)
        })
    }

    /// Hands all packets that were put in to `look`. `spare` is empty before and after. For one
    /// thread at a time.
    pub(super) fn take(&self, spare: &mut Batch, look: impl FnOnce(&Batch)) {
        let closed = self.open.fetch_xor(1, Ordering::Relaxed);
        std::mem::swap(&mut *locked(&self.sides[closed]), spare);
        look(spare);
        spare.clear();
    }

    /// Packets that found no room so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

fn free(side: &Mutex<Batch>) -> Option<MutexGuard<'_, Batch>> {
    match side.try_lock() {
        Ok(side) => Some(side),
        Err(TryLockError::Poisoned(side)) => Some(side.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(unix_ns: u64) -> Record {
        Record {
            iface: Iface(1),
            ethernet: true,
            unix_ns,
            direction: Direction::Received,
            original_len: 4,
            note: Note::None,
            naming: 0,
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_found_some_comes_out() {
        let lane = Lane::default();
        let most = SIDE_PACKETS as u64;
        for at in 0..most + 3 {
            lane.put(&record(at), Some(&[1, 2, 3, 4]));
        }
        lane.put(&record(0), None);
        let (mut packets, mut all) = (0, InterfaceCounts::default());
        lane.take(&mut Batch::default(), |batch| {
            packets += batch.records().count() as u64;
            for (iface, ethernet, counts) in batch.counts() {
                assert_eq!((iface, ethernet), (Iface(1), true));
                all = *counts;
            }
        });
        let counts = InterfaceCounts { seen: most + 4, fitting: most + 3, lost: 3 };
        assert_eq!((packets, lane.lost(), all), (most, 3, counts));
    }

    #[test]
    fn packets_keep_their_order_while_one_thread_puts_and_another_takes() {
        const MANY: u64 = 200_000;
        let lane = Lane::default();
        let (mut next, mut lost) = (0, 0);
        std::thread::scope(|scope| {
            let putting = scope.spawn(|| {
                for at in 0..MANY {
                    lane.put(&record(at), Some(&at.to_le_bytes()));
                }
            });
            let mut spare = Batch::default();
            loop {
                let is_over = putting.is_finished();
                lane.take(&mut spare, |batch| {
                    for (record, bytes) in batch.records() {
                        assert_eq!(bytes, record.unix_ns.to_le_bytes());
                        assert!(record.unix_ns >= next);
                        lost += record.unix_ns - next;
                        next = record.unix_ns + 1;
                    }
                });
                if is_over {
                    break;
                }
            }
        });
        assert_eq!((lost + MANY - next, lane.lost()), (lane.lost(), lane.lost()));
    }
}
