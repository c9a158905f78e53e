//! How a thread is asked to do something on its own data: a job is put into its mailbox, and its
//! notifier is notified.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use clearway_engine::Notifier;
use thiserror::Error;

/// The thread, or the whole host, has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the host is stopping")]
pub struct Gone;

/// Something to be done by the thread that owns a `T`.
pub type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Jobs on their way to one thread.
pub struct Mailbox<T> {
    // Read in every turn; everything else only when it says so.
    full: AtomicBool,
    jobs: Mutex<Inside<T>>,
}

struct Inside<T> {
    jobs: VecDeque<Job<T>>,
    is_closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let inside = Inside { jobs: VecDeque::new(), is_closed: false };
        Mailbox { full: AtomicBool::new(false), jobs: Mutex::new(inside) }
    }
}

impl<T> Mailbox<T> {
    /// Puts a job in; the caller then notifies it. False, and the job is dropped, when nobody takes
    /// jobs out any more.
    pub fn put(&self, job: Job<T>) -> bool {
        let mut inside = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.is_closed {
            return false;
        }
        inside.jobs.push_back(job);
        self.full.store(true, Ordering::Release);
        true
    }

    /// Whether there are jobs.
    #[inline]
    pub fn has_jobs(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Takes all jobs out.
    #[inline]
    pub fn take(&self) -> VecDeque<Job<T>> {
        if !self.has_jobs() {
            return VecDeque::new();
        }
        let mut inside = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Release);
        std::mem::take(&mut inside.jobs)
    }

    /// No more jobs are taken. Those inside are dropped.
    pub fn close(&self) {
        let mut inside = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        inside.is_closed = true;
        let left = std::mem::take(&mut inside.jobs);
        drop(inside);
        drop(left);
    }
}

/// How a thread is reached.
pub struct Inbox<T> {
    /// What it is asked to do.
    pub mailbox: Arc<Mailbox<T>>,
    /// Wakes it.
    pub notifier: Notifier,
}

impl<T> Inbox<T> {
    /// To a thread that is not there yet.
    pub fn new() -> io::Result<Inbox<T>> {
        Ok(Inbox { mailbox: Arc::default(), notifier: Notifier::new()? })
    }

    /// Has it do something.
    pub fn post(&self, job: Job<T>) -> Result<(), Gone> {
        if !self.mailbox.put(job) {
            return Err(Gone);
        }
        self.notifier.notify();
        Ok(())
    }

    /// Has it do something, and waits for the answer.
    pub fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (tell, answer) = mpsc::sync_channel(1);
        self.post(Box::new(move |it| drop(tell.send(f(it)))))?;
        answer.recv().map_err(|_| Gone)
    }
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Inbox<T> {
        Inbox { mailbox: Arc::clone(&self.mailbox), notifier: self.notifier.clone() }
    }
}
