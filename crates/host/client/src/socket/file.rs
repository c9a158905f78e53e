//! Files into a connection.

use std::os::fd::RawFd;

use clearway_shm::layout::request;
use clearway_shm::{Hostile, Producer};

use super::broken;
use super::stream::publish;
use crate::{Errno, Socket};

/// Bytes of a file that are published at once: while the next ones are read, the worker sends
/// these. More than of bytes that are copied, since each reading is a system call.
const CHUNK: usize = 128 * 1024;

/// What was read of a file into a FIFO.
struct Filled {
    bytes: usize,
    /// No more is to be read: the file ends there, or what comes next cannot be read.
    is_end: bool,
}

impl Socket {
    /// Sends `count` bytes of the file `file` over a stream, those from its byte `from` on, which
    /// are read straight into the transmit FIFO. Answers how many: fewer when the file ends before,
    /// or there is room for no more and the socket does not block. The caller raises SIGPIPE for
    /// EPIPE.
    ///
    /// # Errors
    /// As [`Socket::send`], and those of `pread(2)`.
    pub fn send_file(&self, file: RawFd, from: u64, count: usize) -> Result<usize, Errno> {
        let sent = self.send_file_stream(file, from, count);
        if self.client.is_inside() && sent.is_ok() {
            self.client.sent_inside(self.blocks(0));
        }
        sent
    }

    fn send_file_stream(&self, file: RawFd, from: u64, count: usize) -> Result<usize, Errno> {
        let mut sent = 0;
        let mut deadline = None;
        loop {
            match self.may_send_soon(sent, 0, &mut deadline) {
                Err(_) if sent > 0 => return Ok(sent),
                may => may?,
            }
            let filled = match self.fill(file, from + sent as u64, count - sent) {
                Err(_) if sent > 0 => return Ok(sent),
                filled => filled?,
            };
            sent += filled.bytes;
            if sent == count || filled.is_end {
                return Ok(sent);
            }
            match self.make_room(0, &mut deadline) {
                Err(_) if sent > 0 => return Ok(sent),
                made => made?,
            }
        }
    }

    /// Reads what there is room for, and tells the worker.
    fn fill(&self, file: RawFd, from: u64, count: usize) -> Result<Filled, Errno> {
        let Some(tx) = self.core.tx() else { return Ok(Filled { bytes: 0, is_end: false }) };
        let held = self.core.lock_tx();
        let most = count.min(self.most_to_send(&tx.mem));
        let filled =
            tx.with(&held, |tx| fill_from(tx, (file, from), most, || self.tell(request::WROTE, 0)));
        filled.and_then(|filled| filled).map_err(broken)?
    }
}

/// Reads at most so many bytes of the file, from this byte on, as long as there is room, and
/// publishes them in chunks; all but the last say that more follows.
fn fill_from(
    tx: &mut Producer,
    (file, from): (RawFd, u64),
    most: usize,
    tell: impl Fn(),
) -> Result<Result<Filled, Errno>, Hostile> {
    let mut filled = 0;
    let mut follows = false;
    let end = loop {
        let len = CHUNK.min(most - filled) as u32;
        let room = tx.room()?;
        if len == 0 || room == 0 {
            break Ok(false);
        }
        let read = match tx.read_file(file, from + filled as u64, len)? {
            Ok(0) => break Ok(true),
            Ok(read) => read,
            Err(error) => break Err(Errno(error.raw_os_error().unwrap_or(libc::EIO))),
        };
        filled += read as usize;
        follows = read == len && filled < most && room > read;
        publish(tx, read, follows, &tell);
    };
    if follows {
        // It does not: what was to wait for it waits no longer.
        tx.say_more(false);
        tell();
    }
    Ok(match end {
        Err(errno) if filled == 0 => Err(errno),
        end => Ok(Filled { bytes: filled, is_end: end.unwrap_or(true) }),
    })
}
