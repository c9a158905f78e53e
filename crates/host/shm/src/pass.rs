//! Bytes from one FIFO straight into another: for two programs whose connection needs no stack
//! between them.

use crate::{Consumer, Producer};

impl Consumer {
    /// Moves the first `len` bytes to the end of another FIFO, or as many as are known to be here
    /// and known to fit there; answers how many.
    ///
    /// Look at [`Consumer::len`] and [`Producer::room`] before: no position of another process is
    /// read here, so none can be wrong.
    pub fn pass(&mut self, to: &mut Producer, len: u32) -> u32 {
        // What is known already is never looked at again, and so never impossible.
        let (there, room) = (self.len_for(0).unwrap_or(0), to.room_for(0).unwrap_or(0));
        let len = len.min(there).min(room);
        to.begin_anew();
        self.mem.bytes.copy_to(self.offset(0), &to.mem.bytes, to.offset(0), len as usize);
        to.publish(len);
        self.consume(len);
        len
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
