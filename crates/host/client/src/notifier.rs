//! What wakes threads that wait in the kernel for descriptors of the program's.

use std::os::fd::{AsFd, BorrowedFd};

use crate::Errno;
use crate::hub;
use crate::internal::{self, Internal};

/// A descriptor that is not readable until somebody notifies. It is kept as this crate's own ones
/// are: at a high number, and from programs that close whatever is open.
#[derive(Debug)]
pub struct Notifier(Internal);

impl Notifier {
    /// One that nobody has notified.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: there is no descriptor for it.
    pub fn new() -> Result<Notifier, Errno> {
        internal::with_spares(hub::counter).map(Notifier)
    }

    /// It is readable from now on.
    pub fn notify(&self) {
        hub::notify(&self.0);
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
