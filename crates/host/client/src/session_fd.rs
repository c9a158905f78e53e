//! Which descriptors are sessions.

use std::os::fd::BorrowedFd;

use clearway_shm::socket;

/// The descriptor may be a session's session fd; the host knows whether it is.
pub fn may_be_session_fd(fd: BorrowedFd<'_>) -> bool {
    socket::may_be_session_fd(fd)
}

/// The kernel's name for the socket behind a descriptor; copies have the same.
pub fn cookie(fd: BorrowedFd<'_>) -> Option<u64> {
    socket::cookie(fd).ok()
}
