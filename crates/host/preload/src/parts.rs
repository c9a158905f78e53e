//! Datagrams that several calls put together (MSG_MORE): the first says where it goes, the first
//! without the flag sends it.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clearway_client::SendTo;

use crate::errno::{Answer, fail};

/// The most bytes of a datagram: over IPv6, which has its own header outside of the length.
const LONGEST: usize = 65_527;

/// What one socket has begun. Another process that holds the socket knows nothing of it, and with
/// the socket it is gone, as on Linux.
#[derive(Default)]
pub(crate) struct Parts {
    /// Whether there is something, asked at each send, so not behind the lock.
    is_begun: AtomicBool,
    begun: Mutex<Option<(Vec<u8>, SendTo)>>,
}

impl Parts {
    pub(crate) fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Relaxed)
    }

    /// Adds to what was begun, or begins. `how`: of the first, if it is.
    pub(crate) fn add(&self, from: &[IoSlice<'_>], how: SendTo) -> Answer<()> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, _) = begun.get_or_insert_with(|| (Vec::new(), how));
        if bytes.len() + from.iter().map(|part| part.len()).sum::<usize>() > LONGEST {
            // Linux forgets it.
            *begun = None;
            self.is_begun.store(false, Ordering::Relaxed);
            return fail(libc::EMSGSIZE);
        }
        from.iter().for_each(|part| bytes.extend_from_slice(part));
        self.is_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes what was begun, to be sent.
    pub(crate) fn take(&self) -> (Vec<u8>, SendTo) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_begun.store(false, Ordering::Relaxed);
        begun.take().unwrap_or_default()
    }
}
