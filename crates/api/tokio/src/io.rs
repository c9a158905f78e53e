//! One socket in a runtime: calls that find nothing wait for its readiness.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use clearway_client::{Errno, Socket};
use tokio::io::{Interest, Ready};
use tokio::task::coop;

use crate::driver::Driver;
use crate::net::Net;
use crate::ready::{READ, Readiness, WRITE};

/// A socket, its session fd, and who tells what it is ready for.
pub(crate) struct Io {
    pub(crate) socket: Arc<Socket>,
    /// There until this is dropped.
    session_fd: Option<OwnedFd>,
    driver: Arc<Driver>,
    key: usize,
    readiness: Arc<Readiness>,
}

impl Drop for Io {
    fn drop(&mut self) {
        let Some(session_fd) = self.session_fd.take() else { return };
        self.driver.remove(session_fd.as_fd(), self.key);
        self.socket.close_by_message(session_fd.as_fd());
        drop(session_fd);
        self.socket.closed();
    }
}

impl Io {
    /// A socket that shall be driven by the runtime that this is called in.
    pub(crate) fn new(net: &Net, socket: Arc<Socket>, session_fd: OwnedFd) -> io::Result<Io> {
        let driver = net.driver()?;
        Io::driven_by(driver, socket, session_fd)
    }

    /// One that came by another, which is driven already.
    pub(crate) fn beside(&self, socket: Arc<Socket>, session_fd: OwnedFd) -> io::Result<Io> {
        Io::driven_by(self.driver.clone(), socket, session_fd)
    }

    fn driven_by(driver: Arc<Driver>, socket: Arc<Socket>, session_fd: OwnedFd) -> io::Result<Io> {
        let readiness = Arc::new(Readiness::default());
        let key = driver.add(session_fd.as_fd(), &socket, &readiness)?;
        Ok(Io { socket, session_fd: Some(session_fd), driver, key, readiness })
    }

    /// For `poll_read` and its like: of several tasks that poll for one direction the last one is
    /// woken.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        direction: u8,
        mut call: impl FnMut(&Socket) -> Result<R, Errno>,
    ) -> Poll<io::Result<R>> {
        let budget = ready!(coop::poll_proceed(cx));
        loop {
            let edges = ready!(self.readiness.poll(cx, direction))?;
            match call(&self.socket) {
                Err(Errno::AGAIN) => self.readiness.found_nothing(direction, edges),
                done => {
                    budget.made_progress();
                    return Poll::Ready(Ok(done?));
                }
            }
        }
    }

    /// Calls until something was found. Any number of tasks may do so at once. Nothing has happened
    /// when this is dropped before it is ready.
    pub(crate) async fn call<R>(
        &self,
        direction: u8,
        mut call: impl FnMut(&Socket) -> Result<R, Errno>,
    ) -> io::Result<R> {
        coop::consume_budget().await;
        loop {
            let edges = self.readiness.wait(direction).await?;
            match call(&self.socket) {
                Err(Errno::AGAIN) => self.readiness.found_nothing(direction, edges),
                done => return Ok(done?),
            }
        }
    }

    /// Calls once, if it is thought to be ready.
    pub(crate) fn try_call<R>(
        &self,
        direction: u8,
        call: impl FnOnce(&Socket) -> Result<R, Errno>,
    ) -> io::Result<R> {
        let Some(edges) = self.readiness.look(direction)? else {
            return Err(Errno::AGAIN.into());
        };
        let done = call(&self.socket);
        if matches!(done, Err(Errno::AGAIN)) {
            self.readiness.found_nothing(direction, edges);
        }
        Ok(done?)
    }

    /// Waits until it is ready for something of the interest.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let read = if interest.is_readable() { READ } else { 0 };
        let write = if interest.is_writable() { WRITE } else { 0 };
        // Who asks again and again without anything that makes it wait gives way, too.
        coop::consume_budget().await;
        self.readiness.wait(read | write).await?;
        Ok(self.readiness.ready(interest))
    }

    /// Waits until it is ready; the task that polls last is woken.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>, direction: u8) -> Poll<io::Result<()>> {
        let budget = ready!(coop::poll_proceed(cx));
        ready!(self.readiness.poll(cx, direction))?;
        budget.made_progress();
        Poll::Ready(Ok(()))
    }

    /// SO_ERROR.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.socket.take_error().map(io::Error::from))
    }
}
