//! Packets in the caller's own memory, and the room that the caller gives for packets to be sent.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::slice;

use clearway_pkt::{Buf, Checksum, Iface, PoolBuf, RxMeta, Segmentation, Sink, TxMeta};
use clearway_proto::Env;
use clearway_proto::store::{ChainRx, RingTx};

use crate::status::clw_status;

/// The device knows nothing of the transport checksum: the stack looks itself.
pub const CLW_CHECKSUM_UNKNOWN: u8 = 0;
/// The device vouches for the transport checksum.
pub const CLW_CHECKSUM_GOOD: u8 = 1;
/// The device found the transport checksum wrong.
pub const CLW_CHECKSUM_BAD: u8 = 2;

/// A received packet in memory of the caller's.
///
/// With `release` the stack takes the memory over, reads it where it lies, may write to it, and
/// calls `release(owner)` exactly once when it needs it no more: at once, or when the bytes were
/// read, or when the stack is freed. Without `release` the bytes are copied before `clw_ingest`
/// returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct clw_packet {
    /// The first byte: of the Ethernet header, or of the IP header on links without one.
    pub data: *mut u8,
    /// How many bytes the packet has.
    pub len: u32,
    /// How many bytes of memory it holds on to, for honest receive windows; less than `len` counts
    /// as `len`.
    pub footprint: u32,
    /// Gives the memory back; NULL: copy.
    pub release: Option<unsafe extern "C" fn(owner: *mut c_void)>,
    /// What `release` is called with.
    pub owner: *mut c_void,
    /// The interface that it arrived on.
    pub iface: u16,
    /// The size of the segments when the device joined several into this packet; 0 otherwise.
    pub segment_size: u16,
    /// One of `CLW_CHECKSUM_…`.
    pub checksum: u8,
    /// The device's hash over the flow; 0 when there is none.
    pub rss_hash: u32,
}

/// What goes with a packet to be sent, for devices that do some of the work. All zero for those
/// that do not.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct clw_tx_meta {
    /// When not 0: the device makes the transport checksum, summing from this offset of the frame.
    /// The field holds the pseudo-header's sum.
    pub checksum_start: u16,
    /// Where the sum goes, counted from `checksum_start`.
    pub checksum_offset: u16,
    /// When not 0: the device cuts the TCP payload into segments of so many bytes.
    pub tcp_segment_size: u16,
    /// When not 0: the device cuts the UDP payload into datagrams of so many bytes.
    pub udp_segment_size: u16,
    /// Length of all headers in bytes, for a device that cuts.
    pub header_len: u16,
    /// The flow's hash, for a device that chooses a queue by it; 0 when there is none.
    pub flow_hash: u32,
}

/// Where the stack puts packets that it sends. It asks for room before it changes any state; room
/// that is not committed is as if it had never been asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct clw_sink {
    /// Handed to both functions.
    pub ctx: *mut c_void,
    /// Room for a frame of at least `len` bytes on `iface`, whatever the bytes hold; NULL while no
    /// more is taken. It stays good until the next call of either function.
    pub reserve: Option<unsafe extern "C" fn(ctx: *mut c_void, iface: u16, len: u32) -> *mut u8>,
    /// Sends the first `len` bytes of the room that was given last.
    pub commit: Option<
        unsafe extern "C" fn(ctx: *mut c_void, iface: u16, len: u32, meta: *const clw_tx_meta),
    >,
}

/// A packet's bytes: the caller's, or in a buffer of the stack's own.
pub(crate) enum CallerBuf {
    Lent(Lent),
    Copied(PoolBuf),
}

/// Memory of the caller's, given back when dropped.
pub(crate) struct Lent {
    first: NonNull<u8>,
    start: u32,
    end: u32,
    footprint: u32,
    release: unsafe extern "C" fn(*mut c_void),
    owner: *mut c_void,
}

impl Lent {
    /// Takes the memory of `packet` over; `release` is its function.
    ///
    /// # Safety
    /// `packet.data` leads to `packet.len` bytes that are the stack's alone until `release` is
    /// called; it is not null unless the length is 0.
    pub(crate) unsafe fn take(
        packet: &clw_packet,
        release: unsafe extern "C" fn(*mut c_void),
    ) -> Lent {
        let first = NonNull::new(packet.data).unwrap_or(NonNull::dangling());
        let footprint = packet.footprint.max(packet.len);
        Lent { first, start: 0, end: packet.len, footprint, release, owner: packet.owner }
    }

    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the caller gave function and owner together, to be called once; this is the only
        // call.
        unsafe { (self.release)(self.owner) };
    }
}

impl Buf for CallerBuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the caller lent the bytes up to the packet's length, and `start <= end <=`
            // that length.
            CallerBuf::Lent(lent) => unsafe {
                slice::from_raw_parts(lent.first.as_ptr().add(lent.start as usize), lent.len())
            },
            CallerBuf::Copied(buf) => buf.bytes(),
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: as above, and nobody else uses them until they are given back.
            CallerBuf::Lent(lent) => unsafe {
                slice::from_raw_parts_mut(lent.first.as_ptr().add(lent.start as usize), lent.len())
            },
            CallerBuf::Copied(buf) => buf.bytes_mut(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            CallerBuf::Lent(lent) => lent.len(),
            CallerBuf::Copied(buf) => buf.len(),
        }
    }

    #[inline]
    fn trim_front(&mut self, n: usize) {
        match self {
            CallerBuf::Lent(lent) => lent.start += n.min(lent.len()) as u32,
            CallerBuf::Copied(buf) => buf.trim_front(n),
        }
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        match self {
            CallerBuf::Lent(lent) => lent.end = lent.start + len.min(lent.len()) as u32,
            CallerBuf::Copied(buf) => buf.truncate(len),
        }
    }

    #[inline]
    fn footprint(&self) -> usize {
        match self {
            CallerBuf::Lent(lent) => lent.footprint as usize,
            CallerBuf::Copied(buf) => buf.footprint(),
        }
    }
}

/// The types that the bare layer's stack is built over.
pub(crate) enum Bare {}

impl Env for Bare {
    type Buf = CallerBuf;
    type Rx = ChainRx<CallerBuf>;
    type Tx = RingTx;
}

impl clw_packet {
    /// Whether a packet may be taken over.
    pub(crate) fn check(&self) -> Result<(), clw_status> {
        if self.data.is_null() && self.len > 0 {
            return Err(clw_status::CLW_NULL);
        }
        self.rx_meta().map(|_| ())
    }

    pub(crate) fn rx_meta(&self) -> Result<RxMeta, clw_status> {
        let checksum = match self.checksum {
            CLW_CHECKSUM_UNKNOWN => Checksum::Unknown,
            CLW_CHECKSUM_GOOD => Checksum::Good,
            CLW_CHECKSUM_BAD => Checksum::Bad,
            _ => return Err(clw_status::CLW_INVALID),
        };
        let (segment_size, rss_hash) = (self.segment_size, self.rss_hash);
        Ok(RxMeta { iface: Iface(self.iface), checksum, segment_size, rss_hash })
    }
}

/// The caller's functions as the stack's sink.
pub(crate) struct CallerSink {
    ctx: *mut c_void,
    reserve: unsafe extern "C" fn(*mut c_void, u16, u32) -> *mut u8,
    commit: unsafe extern "C" fn(*mut c_void, u16, u32, *const clw_tx_meta),
}

impl CallerSink {
    /// # Safety
    /// The functions do what [`clw_sink`] says.
    pub(crate) unsafe fn new(sink: clw_sink) -> Result<CallerSink, clw_status> {
        let (Some(reserve), Some(commit)) = (sink.reserve, sink.commit) else {
            return Err(clw_status::CLW_NULL);
        };
        Ok(CallerSink { ctx: sink.ctx, reserve, commit })
    }
}

impl Sink for CallerSink {
    #[inline]
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]> {
        // SAFETY: whoever made this promised that the function answers with null or with room for
        // so many bytes, good until the next call; the borrow of `self` ends before that.
        unsafe {
            let room = NonNull::new((self.reserve)(self.ctx, iface.0, u32::try_from(len).ok()?))?;
            Some(slice::from_raw_parts_mut(room.as_ptr(), len))
        }
    }

    #[inline]
    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta) {
        let (tcp_segment_size, udp_segment_size) = match meta.segmentation {
            Segmentation::None => (0, 0),
            Segmentation::Tcp(size) => (size, 0),
            Segmentation::Udp(size) => (0, size),
        };
        let meta = clw_tx_meta {
            checksum_start: meta.checksum_start,
            checksum_offset: meta.checksum_offset,
            tcp_segment_size,
            udp_segment_size,
            header_len: meta.header_len,
            flow_hash: meta.flow_hash,
        };
        // SAFETY: as promised; frames are shorter than 4 GiB, since `reserve` has seen to it.
        unsafe { (self.commit)(self.ctx, iface.0, len as u32, &meta) };
    }
}
