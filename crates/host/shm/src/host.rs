//! The host page: what a host tells all processes, and only the host writes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::attach_socket::VERSION;
use crate::layout::{HostHead, MAGIC, WorkerWord};
use crate::memory::{Segment, ShmError};
use crate::words::Words;

#[cfg(test)]
mod tests;

/// The most workers of a host: a process gets a notifier for each in one message, see
/// [`crate::socket::MAX_DESCRIPTORS`].
pub const MAX_WORKERS: usize = 250;

/// The host's side of the page.
pub struct HostPage {
    head: Words<HostHead>,
    workers: Vec<Words<WorkerWord>>,
    len: usize,
}

impl HostPage {
    /// A new page for so many workers, and the descriptor that processes get: they can map it for
    /// reading only.
    pub fn create(boot: u64, workers: usize) -> Result<(HostPage, OwnedFd), ShmError> {
        if workers == 0 || workers > MAX_WORKERS {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        }
        let len = page_len(workers);
        let (memory, fd) = Segment::create_for_readers("clearway-host", len)?;
        let memory = Arc::new(memory);
        let head: Words<HostHead> = memory.words(0)?;
        head.magic.store(MAGIC, Ordering::Relaxed);
        head.version.store(VERSION, Ordering::Relaxed);
        head.boot.store(boot, Ordering::Relaxed);
        head.workers.store(workers as u32, Ordering::Relaxed);
        let workers =
            (0..workers).map(|worker| memory.words(place(worker))).collect::<Result<_, _>>()?;
        Ok((HostPage { head, workers, len }, fd))
    }

    /// How long the page is, for [`crate::attach_socket::Welcome`].
    #[allow(clippy::len_without_is_empty, reason = "a page is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The word that says whether a worker sleeps; see [`crate::sleep`].
    pub fn sleeps(&self, worker: usize) -> &AtomicU64 {
        &self.workers[worker].sleeps
    }

    /// How often addresses or routes have changed.
    pub fn routes(&self) -> u32 {
        self.head.routes.load(Ordering::Acquire)
    }

    /// An address or a route has changed: what processes know of them is stale.
    pub fn routes_changed(&self) {
        self.head.routes.fetch_add(1, Ordering::Release);
    }
}

/// A process's side of the page. Reads only: the memory may be mapped so, where nothing but relaxed
/// loads is sure to work.
#[derive(Clone)]
pub struct HostView {
    head: Words<HostHead>,
    workers: Arc<[Words<WorkerWord>]>,
}

impl Segment {
    /// The host page that this memory is.
    pub fn host(self: &Arc<Self>) -> Result<HostView, ShmError> {
        let head: Words<HostHead> = Words::new(self, 0)?;
        if head.magic.load(Ordering::Relaxed) != MAGIC
            || head.version.load(Ordering::Relaxed) != VERSION
        {
            return Err(ShmError::Version);
        }
        let workers = (head.workers.load(Ordering::Relaxed) as usize).min(MAX_WORKERS);
        let workers =
            (0..workers).map(|worker| Words::new(self, place(worker))).collect::<Result<_, _>>()?;
        Ok(HostView { head, workers })
    }
}

impl HostView {
    /// Which start of the host this is.
    pub fn boot(&self) -> u64 {
        self.head.boot.load(Ordering::Relaxed)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// How often addresses or routes have changed.
    pub fn routes(&self) -> u32 {
        let routes = self.head.routes.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        routes
    }

    /// After a message was put into a ring of this worker: whether its notifier must be notified.
    /// False for a worker that there is not.
    pub fn is_asleep(&self, worker: usize) -> bool {
        self.which_sleep(worker).is_some()
    }

    /// The same, and which sleep it is: a process notifies it once for each
    /// ([`crate::sleep::which_sleep`]).
    pub fn which_sleep(&self, worker: usize) -> Option<u64> {
        self.workers.get(worker).and_then(|word| crate::sleep::which_sleep(&word.sleeps))
    }
}

fn place(worker: usize) -> u32 {
    (size_of::<HostHead>() + worker * size_of::<WorkerWord>()) as u32
}

fn page_len(workers: usize) -> usize {
    let words = place(workers) as usize;
    words.next_multiple_of(rustix::param::page_size())
}
