//! From one program's transmit FIFO straight into another's receive FIFO. Both are memory that a
//! program writes at any time; the positions are ours.

use clearway_shm::Hostile;

use super::rx::RxFifo;
use super::tx::TxFifo;

/// What came of passing bytes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// So many went.
    pub bytes: u32,
    /// So many are left.
    pub left: u32,
    /// The writer waits for room, and there is some.
    pub writer_waits: bool,
}

/// Whose FIFO held something impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liar {
    /// The program whose bytes they are.
    Writer,
    /// The program that reads them.
    Reader,
}

/// Moves at most `most` bytes. Nothing moves when either FIFO's memory was given back.
pub fn pass(tx: &TxFifo, rx: &RxFifo, most: u32) -> Result<Passed, Liar> {
    let written = tx.written().map_err(|Hostile| Liar::Writer)?;
    let (mut from, mut to) = (tx.live.borrow_mut(), rx.live.borrow_mut());
    let (Some(from), Some(to)) = (from.as_mut(), to.as_mut()) else { return Ok(Passed::default()) };
    if rx.is_broken() {
        return Err(Liar::Reader);
    }
    let room = rx.room_in(to, u32::MAX).map_err(|Hostile| Liar::Reader)?;
    let bytes = from.end.pass(&mut to.end, written.min(room).min(most));
    rx.got(to, bytes);
    Ok(Passed { bytes, left: written - bytes, writer_waits: bytes > 0 && tx.took(bytes, from) })
}
