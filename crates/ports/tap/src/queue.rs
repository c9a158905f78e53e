//! One queue of a TUN/TAP interface as a device.

use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use clearway_dev::device::{MAX_IP_PACKET, max_frame};
use clearway_dev::frames::LARGE_LEN;
use clearway_dev::{
    DevCounters, DevError, Facts, FramePool, Mac, Receive, RxDrop, Transmit, TxDrop,
};
use clearway_pkt::{Buf, Burst, Offloads, Piece, PoolBuf, Segmentation, TxMeta};

use crate::netns::within;
use crate::open::{Attached, TapFd, set_mtu};
use crate::sys;
use crate::vnet::{self, HEADER_LEN};

/// Bytes that end a burst. Joined frames are long, and what a turn has not looked at yet should
/// still lie in the core's own cache when it does; the sender learns earlier, too, that they have
/// arrived.
const BURST_BYTES: u64 = 64 * 1024;

/// One queue of a TUN/TAP interface, for one thread. Each frame costs one system call either way, a
/// frame of 64 KiB too.
pub struct TapQueue {
    file: Attached,
    port: String,
    name: String,
    netns: Option<String>,
    mtu: usize,
    mac: Option<Mac>,
    offloads: Offloads,
    counters: DevCounters,
    pool: FramePool,
    /// The next frame is read into these two: its beginning into the small one, and what does not
    /// fit into the large one *at the same offset*, so that a short frame lies where it should
    /// without a copy, and a long one needs only its beginning copied.
    small: Option<PoolBuf>,
    large: Option<PoolBuf>,
    /// Where the rest of a frame goes when there is no buffer for it, so that the kernel's queue
    /// moves on.
    nowhere: Box<[u8]>,
    /// The virtio-net header and the frame that is being written.
    tx: Box<[u8]>,
    /// How much of `tx` was reserved for a frame; 0 when nothing is.
    reserved: usize,
}

/// How one attempt to read ended.
enum Read1 {
    Frame,
    Dropped(RxDrop),
    Empty,
}

impl TapFd {
    /// The device, with its frames in `pool`, for the thread that calls this.
    pub fn into_queue(self, pool: FramePool) -> TapQueue {
        TapQueue::new(self, pool)
    }
}

impl TapQueue {
    fn new(fd: TapFd, pool: FramePool) -> TapQueue {
        let TapFd { file, port, name, netns, mtu, mac, offloads } = fd;
        let longest = max_frame(mtu, mac.is_some()).max(offloads.max_segmented_frame as usize);
        TapQueue {
            file,
            port,
            name,
            netns,
            mtu,
            mac,
            offloads,
            counters: DevCounters::default(),
            pool,
            small: None,
            large: None,
            nowhere: vec![0; LARGE_LEN.max(max_frame(MAX_IP_PACKET, true))].into_boxed_slice(),
            tx: vec![0; HEADER_LEN + longest].into_boxed_slice(),
            reserved: 0,
        }
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue on its way to another thread. What it has counted stays behind.
    pub fn into_fd(self) -> TapFd {
        let TapQueue { file, port, name, netns, mtu, mac, offloads, .. } = self;
        TapFd { file, port, name, netns, mtu, mac, offloads }
    }

    fn read_one(&mut self, burst: &mut Burst<PoolBuf>) -> Result<Read1, DevError> {
        if self.small.is_none() {
            self.small = self.pool.small().take();
        }
        if self.large.is_none() {
            self.large = self.pool.large().take();
        }
        let mut header = [0; HEADER_LEN];
        let (head, tail) = (
            self.small.as_mut().map(|buf| buf.bytes_mut()),
            self.large.as_mut().map(|buf| buf.bytes_mut()),
        );
        let head_len = head.as_ref().map_or(0, |bytes| bytes.len());
        let tail = tail.and_then(|bytes| bytes.get_mut(head_len..));
        let space = head_len + tail.as_ref().map_or(0, |bytes| bytes.len());
        let mut slices = [
            IoSliceMut::new(&mut header),
            IoSliceMut::new(head.unwrap_or_default()),
            IoSliceMut::new(tail.unwrap_or_default()),
            IoSliceMut::new(&mut self.nowhere),
        ];
        let read = loop {
            match (&*self.file).read_vectored(&mut slices) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let len = match read {
            Ok(read) if read >= HEADER_LEN => read - HEADER_LEN,
            Ok(_) => return Ok(Read1::Dropped(RxDrop::BadHeader)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Read1::Empty),
            Err(error) => return Err(self.gone(error)),
        };
        if head_len == 0 || len > space {
            // Either the pool is empty, or no buffer of it is as long as this frame.
            let why = if len > self.pool.max_frame() { RxDrop::TooLong } else { RxDrop::NoBuffer };
            return Ok(Read1::Dropped(why));
        }
        let Ok(meta) = vnet::parse(&header, len) else {
            return Ok(Read1::Dropped(RxDrop::BadHeader));
        };
        let Some(buf) = self.finish(len, head_len) else {
            return Ok(Read1::Dropped(RxDrop::NoBuffer));
        };
        self.counters.received(len);
        // The caller asked for no more than the burst has room for.
        let _ = burst.push(buf, meta);
        Ok(Read1::Frame)
    }

    /// The frame that was just read, in the one buffer where all of it is.
    fn finish(&mut self, len: usize, head_len: usize) -> Option<PoolBuf> {
        let mut buf = if len <= head_len {
            self.small.take()?
        } else {
            let mut large = self.large.take()?;
            let head = self.small.as_ref()?.bytes();
            large.bytes_mut().get_mut(..head_len)?.copy_from_slice(head);
            large
        };
        buf.truncate(len);
        Some(buf)
    }

    fn gone(&self, error: io::Error) -> DevError {
        // A removed interface answers EBADFD to a queue that it had, and EFAULT to one that waits.
        let what = match error.raw_os_error() {
            Some(libc::EBADFD | libc::EFAULT) => "the interface was removed",
            _ => "the interface cannot be read",
        };
        let remedy = "Make it again: a host takes it back, others have to be restarted; ip link \
                      shows what is there";
        DevError::new(&self.port, what, remedy).with_source(error)
    }

    /// Has the kernel take the virtio-net header, the first `head` bytes of the room, and `body`
    /// behind them, in one system call.
    fn write_frame(&self, head: usize, body: &[Piece<'_>], len: usize) -> Result<(), TxDrop> {
        let Some(head) = self.tx.get(..HEADER_LEN + head) else { return Err(TxDrop::TooLong) };
        loop {
            let written = if body.is_empty() {
                (&*self.file).write(head)
            } else {
                sys::write_pieces(&self.file, head, body)
            };
            match written {
                // The driver takes a frame whole or not at all.
                Ok(written) if written == HEADER_LEN + len => return Ok(()),
                Ok(_) => return Err(TxDrop::Refused),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                        return Err(TxDrop::QueueFull);
                    }
                    Some(libc::EIO) => return Err(TxDrop::LinkDown),
                    _ => return Err(TxDrop::Refused),
                },
            }
        }
    }

    /// Sends a frame whose first `head` bytes stand in the room, and whose rest is `body`; `len` is
    /// the length of both together.
    fn send(
        &mut self,
        head: usize,
        body: &[Piece<'_>],
        len: usize,
        meta: &TxMeta,
    ) -> Result<(), TxDrop> {
        if len > std::mem::take(&mut self.reserved) {
            return Err(TxDrop::BadRequest);
        }
        let ethernet = self.mac.is_some();
        if meta.segmentation == Segmentation::None && len > max_frame(self.mtu, ethernet) {
            return Err(TxDrop::TooLong);
        }
        let (vnet, frame) = self.tx.split_at_mut(HEADER_LEN);
        let header =
            vnet::build(meta, &frame[..head], len, ethernet).map_err(|_| TxDrop::BadRequest)?;
        vnet.copy_from_slice(&header);
        self.write_frame(head, body, len)
    }

    fn account(&mut self, len: usize, sent: Result<(), TxDrop>) {
        match sent {
            Ok(()) => self.counters.sent(len),
            Err(why) => self.counters.drop_tx(why),
        }
    }
}

impl Receive for TapQueue {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        // Dropped frames count against the turn too, so that a flood with an empty pool cannot hold
        // the loop here.
        let enough = self.counters.rx_bytes + BURST_BYTES;
        for _ in 0..burst.room() {
            if self.counters.rx_bytes >= enough {
                burst.leave_more();
                break;
            }
            match self.read_one(burst)? {
                Read1::Frame => {}
                Read1::Dropped(why) => self.counters.drop_rx(why),
                Read1::Empty => break,
            }
        }
        Ok(())
    }
}

impl Transmit for TapQueue {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.reserved = 0;
        let room = self.tx.get_mut(HEADER_LEN..)?;
        if len > room.len() {
            return None;
        }
        self.reserved = room.len();
        Some(room)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        let sent = self.send(len, &[], len, &meta);
        self.account(len, sent);
    }

    /// The kernel copies a frame out of any number of places in one system call.
    fn gathers(&self) -> bool {
        true
    }

    fn commit_gathered(&mut self, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        let len = head + body.iter().map(|piece| piece.len()).sum::<usize>();
        let sent = self.send(head, body, len, &meta);
        self.account(len, sent);
    }

    fn reserved(&self) -> &[u8] {
        self.tx.get(HEADER_LEN..HEADER_LEN + self.reserved).unwrap_or_default()
    }
}

impl Facts for TapQueue {
    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        within(self.netns.as_deref(), || set_mtu(&self.port, &self.name, mtu))?;
        self.mtu = mtu;
        let longest = HEADER_LEN + max_frame(mtu, self.mac.is_some());
        if longest > self.tx.len() {
            self.tx = vec![0; longest].into_boxed_slice();
            self.reserved = 0;
        }
        Ok(())
    }

    fn mac(&self) -> Option<Mac> {
        self.mac
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }
}
