//! The memory of one FIFO.

use clearway_shm::FifoMem;
use clearway_shm::attach_socket::FifoPlace;
use clearway_shm::fifo::MIN_CAPACITY;

use crate::memory::{Account, Block, Memory};

/// Bytes of a FIFO's words.
const HEAD_LEN: u32 = size_of::<clearway_shm::layout::FifoHead>() as u32;

/// The memory of one FIFO, empty and new. Given back when this is dropped.
pub struct FifoBlocks {
    /// Where it lies, for the process.
    pub place: FifoPlace,
    /// Where it lies, for us.
    pub mem: FifoMem,
    data: Block,
    _head: Block,
    account: std::sync::Arc<Account>,
}

impl FifoBlocks {
    /// Takes memory for a FIFO of which `limit` bytes may be filled.
    pub fn take(memory: &Memory, limit: u32) -> Option<FifoBlocks> {
        let capacity = limit.max(MIN_CAPACITY).checked_next_power_of_two()?;
        let (head, data) = (memory.take(HEAD_LEN)?, memory.reserve(capacity)?);
        let place = FifoPlace { head: head.place(), data: data.place(), capacity, limit };
        let mem = FifoMem::new(head.segment(), data.segment(), &place).ok()?;
        mem.clear();
        let account = std::sync::Arc::clone(memory.account());
        account.add_fifo();
        Some(FifoBlocks { place, mem, data, _head: head, account })
    }

    /// These bytes of its memory were written.
    #[inline]
    pub fn touch(&self, offset: u32, len: u32) {
        self.data.touch(offset, len);
    }

    /// Bytes of memory that it has.
    pub fn charged(&self) -> u64 {
        self.data.charged()
    }

    /// Gives back what lies outside of these bytes. Nobody may be writing there.
    pub fn keep_only(&self, offset: u32, len: u32) -> u64 {
        self.data.keep_only(offset, len)
    }

    /// Who it is charged to.
    pub fn account(&self) -> &Account {
        &self.account
    }
}

impl Drop for FifoBlocks {
    fn drop(&mut self) {
        self.account.remove_fifo();
    }
}
