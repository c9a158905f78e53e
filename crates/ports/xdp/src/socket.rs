//! A socket on one queue of the interface, with its rings.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use libc::{SOL_SOCKET, SOL_XDP, c_int, xdp_desc, xdp_mmap_offsets, xdp_statistics};

use crate::interface::Interface;
use crate::ring::{Consumer, Producer};
use crate::sys;
use crate::umem::Memory;

/// Places in each ring: a power of two. At 10 million frames a second it takes 0.2 ms to fill one.
pub(crate) const RING: u32 = 2_048;

/// Bytes of what stands before a frame that is sent (`struct xsk_tx_metadata`), and what is in
/// them.
pub(crate) const METADATA_LEN: usize = 24;

/// What may wait in the kernel to be received at the other end, in bytes of its own buffers: a ring
/// of full frames. Without it the kernel stops at some hundred frames.
const SEND_BUFFER: c_int = 16 << 20;

/// `XDP_MAX_TX_SKB_BUDGET` (linux/if_xdp.h, since 6.18): frames that one call sends at most, 32
/// unless said.
const MAX_TX_BUDGET: c_int = 9;

/// The socket of one queue. It receives; the first one of a core sends as well.
pub(crate) struct Socket {
    fd: OwnedFd,
    pub(crate) queue: u32,
    pub(crate) fill: Producer<u64>,
    pub(crate) rx: Consumer<xdp_desc>,
    pub(crate) completion: Consumer<u64>,
}

/// What the first socket of a core has besides.
pub(crate) struct First {
    pub(crate) socket: Socket,
    pub(crate) tx: Producer<xdp_desc>,
    /// Whether the kernel reads what stands before a frame that is sent.
    pub(crate) metadata: bool,
    /// Whether the device itself reads and writes our memory.
    pub(crate) zero_copy: bool,
}

/// Which step failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Socket,
    Memory,
    Rings,
    Bind { queue: u32 },
}

type Stepped<T> = Result<T, (Step, io::Error)>;

/// The socket that the memory is registered with, bound to a queue.
pub(crate) fn first(
    memory: &Memory,
    interface: &Interface,
    queue: u32,
    copy: bool,
) -> Stepped<First> {
    let fd = sys::xdp_socket().map_err(|error| (Step::Socket, error))?;
    let metadata = register(fd.as_fd(), memory).map_err(|error| (Step::Memory, error))?;
    let (socket, tx) = with_rings(fd, queue, true).map_err(|error| (Step::Rings, error))?;
    let tx = tx.ok_or((Step::Rings, io::ErrorKind::Other.into()))?;
    let fd = socket.fd.as_fd();
    // A right that is missing, or a kernel that does not know it, costs speed only.
    if sys::set_option(fd, SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER).is_err() {
        let _ = sys::set_option(fd, SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER);
    }
    let _ = sys::set_option(fd, SOL_XDP, MAX_TX_BUDGET, &RING);
    let copy = if copy { libc::XDP_COPY } else { 0 };
    bind(fd, interface, queue, libc::XDP_USE_NEED_WAKEUP | copy, 0)?;
    let options: io::Result<(libc::xdp_options, usize)> =
        sys::option(fd, SOL_XDP, libc::XDP_OPTIONS);
    let zero_copy =
        options.is_ok_and(|(options, _)| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0);
    Ok(First { socket, tx, metadata, zero_copy })
}

/// A socket on another queue, in the memory of the first one.
pub(crate) fn further(first: &Socket, interface: &Interface, queue: u32) -> Stepped<Socket> {
    let fd = sys::xdp_socket().map_err(|error| (Step::Socket, error))?;
    let (socket, _) = with_rings(fd, queue, false).map_err(|error| (Step::Rings, error))?;
    let shared = first.fd.as_raw_fd() as u32;
    bind(socket.fd.as_fd(), interface, queue, libc::XDP_SHARED_UMEM, shared)?;
    Ok(socket)
}

/// How often, and after which pauses, it is tried again when a queue is busy. The kernel puts the
/// sockets and the program of a process that has ended away in a thread of its own, after the last
/// descriptor was closed.
const ATTEMPTS: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);

/// Tries again for three seconds what is said to be busy: on a machine whose cores are full one was
/// not enough.
pub(crate) fn when_released<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    attempt()
}

fn bind(
    fd: BorrowedFd<'_>,
    interface: &Interface,
    queue: u32,
    flags: u16,
    shared: u32,
) -> Stepped<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared,
    };
    when_released(|| sys::bind(fd, &address)).map_err(|error| (Step::Bind { queue }, error))
}

/// Answers whether the kernel takes words before frames that are sent (since 6.11).
fn register(fd: BorrowedFd<'_>, memory: &Memory) -> io::Result<bool> {
    let mut registration = libc::xdp_umem_reg {
        addr: memory.address(),
        len: memory.len() as u64,
        chunk_size: memory.frame_len(),
        headroom: 0,
        flags: libc::XDP_UMEM_TX_METADATA_LEN,
        tx_metadata_len: METADATA_LEN as u32,
    };
    match sys::set_option(fd, SOL_XDP, libc::XDP_UMEM_REG, &registration) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            (registration.flags, registration.tx_metadata_len) = (0, 0);
            sys::set_option(fd, SOL_XDP, libc::XDP_UMEM_REG, &registration).map(|()| false)
        }
        other => other.map(|()| true),
    }
}

fn with_rings(
    fd: OwnedFd,
    queue: u32,
    sends: bool,
) -> io::Result<(Socket, Option<Producer<xdp_desc>>)> {
    let socket = fd.as_fd();
    for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
        sys::set_option(socket, SOL_XDP, ring, &RING)?;
    }
    if sends {
        sys::set_option(socket, SOL_XDP, libc::XDP_TX_RING, &RING)?;
    }
    let (offsets, len): (xdp_mmap_offsets, usize) =
        sys::option(socket, SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
    // Before Linux 5.4 there were no flags.
    if len < size_of::<xdp_mmap_offsets>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let page = |page: u64| page as i64;
    let fill = Producer::map(socket, RING, page(libc::XDP_UMEM_PGOFF_FILL_RING), &offsets.fr)?;
    let completion =
        Consumer::map(socket, RING, page(libc::XDP_UMEM_PGOFF_COMPLETION_RING), &offsets.cr)?;
    let rx = Consumer::map(socket, RING, libc::XDP_PGOFF_RX_RING, &offsets.rx)?;
    let tx = if sends {
        Some(Producer::map(socket, RING, libc::XDP_PGOFF_TX_RING, &offsets.tx)?)
    } else {
        None
    };
    Ok((Socket { fd, queue, fill, rx, completion }, tx))
}

impl Socket {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What the kernel has counted of it.
    pub(crate) fn statistics(&self) -> Option<xdp_statistics> {
        sys::option(self.fd.as_fd(), SOL_XDP, libc::XDP_STATISTICS)
            .ok()
            .map(|(statistics, _)| statistics)
    }

    /// What has gone wrong with it since this was asked last.
    pub(crate) fn error(&self) -> Option<io::Error> {
        match sys::option::<c_int>(self.fd.as_fd(), SOL_SOCKET, libc::SO_ERROR) {
            Ok((0, _)) => None,
            Ok((number, _)) => Some(io::Error::from_raw_os_error(number)),
            Err(error) => Some(error),
        }
    }
}
