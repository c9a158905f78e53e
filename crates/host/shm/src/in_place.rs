//! Bytes of a FIFO that are used where they lie: sent from there, or read out of a file to there.

use std::io;

use crate::atomic::AtomicU8;
use crate::{Consumer, Hostile, Producer};

impl Consumer {
    /// The `len` bytes that begin `at` bytes behind the head, where they lie; the second part is
    /// what goes on at the beginning of the memory. None when so many are not known to be there.
    ///
    /// Their producer may still write them, against all rules, so nothing may be decided by them.
    pub fn pieces(&self, at: u32, len: u32) -> Option<[&[AtomicU8]; 2]> {
        let is_there = at.checked_add(len).is_some_and(|end| end <= self.known());
        is_there.then(|| self.mem.bytes.shared(self.offset(at), len as usize))
    }
}

impl Producer {
    /// Reads `len` bytes of a file, from its byte `from` on, to behind the tail, as many as there is
    /// room for, and publishes nothing. Answers how many; where there is room, none means that the
    /// file ends there.
    pub fn read_file(
        &mut self,
        file: i32,
        from: u64,
        len: u32,
    ) -> Result<io::Result<u32>, Hostile> {
        let len = self.begin_ahead(0, len)?;
        let read = self.mem.bytes.read_file(self.offset(0), len as usize, file, from);
        if let Ok(read) = read {
            self.note_ahead(read as u32);
        }
        Ok(read.map(|read| read as u32))
    }
}

#[cfg(test)]
mod tests;
