//! What a process knows of a session: where its words and FIFOs lie, and by which attachment its events come.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwapOption, Guard};
use clearway_shm::door::{self, FifoPlace, Kind, SessionId};
use clearway_shm::layout::flags;
use clearway_shm::lock;
use clearway_shm::{Consumer, FifoMem, Hostile, Producer, SessionView};

use crate::Errno;

/// A session as all threads of this process use it.
pub(crate) struct Core {
    pub(crate) id: SessionId,
    pub(crate) kind: Kind,
    pub(crate) v6: bool,
    /// Its place in the hub.
    pub(crate) key: usize,
    pub(crate) words: SessionView,
    /// A connection that failed and is tried again has other FIFOs.
    rx: ArcSwapOption<End<Consumer>>,
    tx: ArcSwapOption<End<Producer>>,
    /// The attachment that its events come by.
    attachment: AtomicU32,
    /// How often this process, or one that it came from, had been forked when that was so.
    forks: AtomicU32,
    /// That the host is gone was reported as this socket's error.
    mourned: AtomicBool,
    /// The urgent mark whose byte was read with MSG_OOB, and one more bit that says that there was any.
    pub(crate) urgent_read: AtomicU64,
}

/// Where a session's FIFOs lie, of those that it has.
pub(crate) struct Fifos {
    pub(crate) rx: Option<(FifoPlace, FifoMem)>,
    pub(crate) tx: Option<(FifoPlace, FifoMem)>,
}

/// One end of a FIFO.
pub(crate) struct End<T> {
    place: FifoPlace,
    pub(crate) mem: FifoMem,
    /// Used under the lock in the session's words only. So nobody ever waits for this one; where it is taken nevertheless, the process was forked while a
    /// thread that it does not have was at work.
    end: Mutex<T>,
}

/// An end that is used just now. It may be replaced meanwhile; its memory stays.
pub(crate) struct Used<T>(Guard<Option<Arc<End<T>>>>);

impl<T> Used<T> {
    fn of(end: &ArcSwapOption<End<T>>) -> Option<Used<T>> {
        let end = end.load();
        end.is_some().then(|| Used(end))
    }
}

impl<T> std::ops::Deref for Used<T> {
    type Target = End<T>;

    fn deref(&self) -> &End<T> {
        self.0.as_ref().expect("made with an end only")
    }
}

impl End<Consumer> {
    /// Works with the end as it is now. Call with the session's `rx_lock` held.
    pub(crate) fn with<R>(&self, _held: &lock::Guard<'_>, work: impl FnOnce(&mut Consumer) -> R) -> Result<R, Hostile> {
        match self.end.try_lock() {
            Ok(mut end) => {
                end.refresh()?;
                Ok(work(&mut end))
            }
            Err(_) => Ok(work(&mut Consumer::resume(self.mem.clone())?)),
        }
    }
}

impl End<Producer> {
    /// Works with the end as it is now. Call with the session's `tx_lock` held.
    pub(crate) fn with<R>(&self, _held: &lock::Guard<'_>, work: impl FnOnce(&mut Producer) -> R) -> Result<R, Hostile> {
        match self.end.try_lock() {
            Ok(mut end) => {
                end.refresh()?;
                Ok(work(&mut end))
            }
            Err(_) => Ok(work(&mut Producer::resume(self.mem.clone())?)),
        }
    }
}

impl Core {
    pub(crate) fn new(session: &door::Session, words: SessionView, key: usize, forks: u32) -> Core {
        Core {
            id: session.id,
            kind: session.kind,
            v6: session.v6,
            key,
            words,
            rx: ArcSwapOption::empty(),
            tx: ArcSwapOption::empty(),
            attachment: AtomicU32::new(0),
            forks: AtomicU32::new(forks),
            mourned: AtomicBool::new(false),
            urgent_read: AtomicU64::new(0),
        }
    }

    /// The receive FIFO, once there is one.
    pub(crate) fn rx(&self) -> Option<Used<Consumer>> {
        Used::of(&self.rx)
    }

    /// The transmit FIFO, once there is one.
    pub(crate) fn tx(&self) -> Option<Used<Producer>> {
        Used::of(&self.tx)
    }

    /// Where the FIFOs lie is known, or has changed.
    pub(crate) fn set_fifos(&self, fifos: Fifos) {
        let differs = |known: Option<FifoPlace>, place: FifoPlace| known != Some(place);
        if let Some((place, mem)) = fifos.rx.filter(|(place, _)| differs(self.rx().map(|end| end.place), *place)) {
            let end = Mutex::new(Consumer::new(mem.clone()));
            self.rx.store(Some(Arc::new(End { place, mem, end })));
        }
        if let Some((place, mem)) = fifos.tx.filter(|(place, _)| differs(self.tx().map(|end| end.place), *place)) {
            let end = Mutex::new(Producer::new(mem.clone()));
            self.tx.store(Some(Arc::new(End { place, mem, end })));
        }
    }

    /// Its events come by this attachment from now on.
    pub(crate) fn belong(&self, attachment: u32, forks: u32) {
        self.forks.store(forks, Ordering::Relaxed);
        self.attachment.store(attachment, Ordering::Release);
    }

    /// The attachment that its events come by.
    pub(crate) fn attachment(&self) -> u32 {
        self.attachment.load(Ordering::Acquire)
    }

    /// It was inherited from a process that had been forked less often.
    pub(crate) fn is_inherited(&self, forks: u32) -> bool {
        self.forks.load(Ordering::Relaxed) != forks
    }

    pub(crate) fn state(&self) -> u32 {
        self.words.state.load(Ordering::Acquire)
    }

    pub(crate) fn flags(&self) -> u32 {
        self.words.flags.load(Ordering::Acquire)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.flags() & flags::NONBLOCK != 0
    }

    pub(crate) fn lock_rx(&self) -> lock::Guard<'_> {
        lock::lock(&self.words.rx_lock)
    }

    pub(crate) fn lock_tx(&self) -> lock::Guard<'_> {
        lock::lock(&self.words.tx_lock)
    }

    /// There is an error that nobody has taken.
    pub(crate) fn has_error(&self, alive: bool) -> bool {
        if !alive {
            return !self.mourned.load(Ordering::Relaxed);
        }
        let error = self.words.error.load(Ordering::Acquire);
        error != self.words.error_seen.load(Ordering::Relaxed)
    }

    /// Takes the error: the next who asks finds none. That the host is gone is an error too, once.
    pub(crate) fn take_error(&self, alive: bool) -> Option<Errno> {
        if !alive {
            return (!self.mourned.swap(true, Ordering::Relaxed)).then_some(Errno::CONNRESET);
        }
        let error = self.words.error.load(Ordering::Acquire);
        let seen = self.words.error_seen.load(Ordering::Relaxed);
        if error == seen {
            return None;
        }
        let taken = self.words.error_seen.compare_exchange(seen, error, Ordering::AcqRel, Ordering::Relaxed);
        // When another thread was quicker, it is that thread's.
        taken.ok().map(|_| Errno(i32::from(error as u16)))
    }
}
