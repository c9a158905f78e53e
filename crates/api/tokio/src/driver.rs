//! The task that waits for all sockets of a runtime.
//!
//! As long as there are events it hands them out and lets the tasks that they concern run before it
//! looks for more: meanwhile the process counts as awake, and no worker of the host writes a
//! notifier. Only when there is nothing it announces the process as asleep, and waits for the
//! descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_client::{Client, EpollEvent, Errno, EventSource, Socket};
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

use crate::ready::Readiness;

/// Events that are taken at once.
const BURST: usize = 128;

/// Tells sockets of one runtime what they are ready for. Its task ends with it.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    source: EventSource,
    sockets: Mutex<Sockets>,
}

#[derive(Default)]
struct Sockets {
    readiness: Slab<Arc<Readiness>>,
    /// The task is gone: its runtime ended.
    abandoned: bool,
}

/// The source, as tokio waits for it.
struct Descriptor(Arc<Shared>);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.source.as_raw_fd()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends with the task, however that ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut sockets = self.0.sockets();
        sockets.abandoned = true;
        let waiting: Vec<_> =
            sockets.readiness.iter().map(|(_, readiness)| readiness.clone()).collect();
        drop(sockets);
        waiting.iter().for_each(|readiness| readiness.abandon());
    }
}

impl Driver {
    /// Begins to drive sockets of this client in the runtime that this is called in.
    pub(crate) fn begin(client: &Arc<Client>) -> io::Result<Driver> {
        let shared =
            Arc::new(Shared { source: EventSource::new(client)?, sockets: Mutex::default() });
        #[allow(
            deprecated,
            reason = "what replaces it since tokio 1.54 is unsafe; here the \
            descriptor is the source's own, and as long open as the registration is there"
        )]
        let descriptor = AsyncFd::with_interest(Descriptor(shared.clone()), Interest::READABLE)?;
        let ending = Ending(shared.clone());
        let task = tokio::spawn(drive(descriptor, ending)).abort_handle();
        Ok(Driver { shared, task })
    }

    /// Its runtime is not there any more.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.sockets().abandoned
    }

    /// From now on the socket is told of. Returns what names it here.
    pub(crate) fn add(
        &self,
        session_fd: BorrowedFd<'_>,
        socket: &Socket,
        readiness: &Arc<Readiness>,
    ) -> io::Result<usize> {
        let key = self.shared.sockets().readiness.insert(readiness.clone());
        let added = self.shared.source.add(session_fd, socket, key as u64);
        if added.is_err() {
            self.shared.sockets().readiness.remove(key);
        }
        added?;
        if self.is_over() {
            readiness.abandon();
        }
        Ok(key)
    }

    /// The socket is told of no more.
    pub(crate) fn remove(&self, session_fd: BorrowedFd<'_>, key: usize) {
        // It is gone already where the process was forked from: nothing is left to do then.
        let _ = self.shared.source.remove(session_fd);
        self.shared.sockets().readiness.remove(key);
    }
}

impl Shared {
    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the events out. One for a socket that went meanwhile may reach the next one in its
    /// place, which then tries once in vain.
    fn dispatch(&self, events: &[EpollEvent]) {
        for event in events {
            let key = event.data as usize;
            let readiness = self.sockets().readiness.get(key).cloned();
            if let Some(readiness) = readiness {
                readiness.edge(event.events);
            }
        }
    }
}

async fn drive(descriptor: AsyncFd<Descriptor>, ending: Ending) {
    let shared = &ending.0;
    let mut events = [EpollEvent::default(); BURST];
    loop {
        let taken = shared.source.take(&mut events);
        shared.dispatch(&events[..taken]);
        if taken == 0 {
            match shared.source.arm() {
                Ok(true) => match descriptor.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    // The runtime ends.
                    Err(_) => return,
                },
                Ok(false) => {}
                Err(Errno(_)) => return,
            }
        } else {
            // Who was told comes first.
            tokio::task::yield_now().await;
        }
    }
}
