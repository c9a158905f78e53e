//! TCP segments (RFC 9293 3.1): flags, the header by value, and writing it back. Options are in
//! [`options`].
//!
//! The receive path uses [`parse`], which reads the whole header with its options at once. It has
//! three ways through: no options, the timestamps that nearly every segment of an open connection
//! carries in one fixed layout, and everything else.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

use crate::addr::Addr;
use crate::bytes::{head, put16, put32, u16_at, u32_at};
use crate::checksum::{self, Sum};
use crate::ip::Proto;
use crate::malformed::Malformed;
use crate::seq::Seq;

pub mod options;

pub use options::{AccEcn, FastOpenCookie, RawOption, RawOptions, SackBlocks, TcpOptions};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header: the data offset counts to 15 words.
pub const MAX_HEADER_LEN: usize = 60;
/// Bytes of options at most.
pub const MAX_OPTIONS_LEN: usize = MAX_HEADER_LEN - HEADER_LEN;

/// Control bits (RFC 9293 3.1, ECN bits RFC 3168 6.1, RFC 9768 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No bit.
    pub const NONE: Flags = Flags(0);
    /// No more data from the sender.
    pub const FIN: Flags = Flags(1);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(1 << 1);
    /// Reset the connection.
    pub const RST: Flags = Flags(1 << 2);
    /// Push.
    pub const PSH: Flags = Flags(1 << 3);
    /// The acknowledgment field counts.
    pub const ACK: Flags = Flags(1 << 4);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(1 << 5);
    /// ECN echo.
    pub const ECE: Flags = Flags(1 << 6);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(1 << 7);
    /// Accurate ECN (RFC 9768 3.1): the lowest of the bits beside the data offset.
    pub const AE: Flags = Flags(1 << 8);
    /// The three bits of ECN. With SYN clear they are the ACE field of RFC 9768 3.2.2, where that
    /// was agreed on.
    pub const ACE: Flags = Flags(Flags::AE.0 | Flags::CWR.0 | Flags::ECE.0);

    /// All bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Any bit of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits that both have.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// The bits of either; `|` in constants.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The bits of `self` that `other` has not.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The number in the ACE field, 0 to 7.
    #[inline]
    pub const fn ace(self) -> u8 {
        (self.0 >> 6) as u8 & 7
    }

    /// The ACE field that says the lowest three bits of `number`.
    #[inline]
    pub const fn of_ace(number: u8) -> Flags {
        Flags((number as u16 & 7) << 6)
    }

    /// SYN is set.
    #[inline]
    pub const fn syn(self) -> bool {
        self.contains(Flags::SYN)
    }

    /// ACK is set.
    #[inline]
    pub const fn ack(self) -> bool {
        self.contains(Flags::ACK)
    }

    /// RST is set.
    #[inline]
    pub const fn rst(self) -> bool {
        self.contains(Flags::RST)
    }

    /// FIN is set.
    #[inline]
    pub const fn fin(self) -> bool {
        self.contains(Flags::FIN)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    #[inline]
    fn bitor_assign(&mut self, other: Flags) {
        *self = *self | other;
    }
}

/// One letter per bit as tcpdump writes them: `S.` is SYN and ACK, `e` is AE, `none` no bit at all.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        for (bit, letter) in ["F", "S", "R", "P", ".", "U", "E", "W", "e"].into_iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A header by value, with its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: Seq,
    /// SEG.ACK; counts only with [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Bytes from the start of the segment to its data as they came; [`emit`] does not read it, but
    /// works it out from `opts`.
    pub header_len: u8,
    /// SEG.WND as it stands in the header, not scaled.
    pub wnd: u16,
    /// SEG.UP; counts only with [`Flags::URG`].
    pub urg: u16,
    /// Options.
    pub opts: TcpOptions,
}

impl Segment {
    /// SEG.LEN: the sequence space that `payload_len` bytes of data with this header take, SYN and
    /// FIN counted (RFC 9293 3.4).
    #[inline]
    pub const fn seq_len(&self, payload_len: usize) -> u32 {
        payload_len as u32 + self.flags.syn() as u32 + self.flags.fin() as u32
    }

    /// What [`plain_with_stamps`] reads, or [`plain_without_options`].
    #[inline]
    pub const fn plain(&self) -> Plain {
        let Segment { seq, ack, flags, header_len, wnd, opts, .. } = *self;
        Plain { seq, ack, flags, header_len, wnd, ts: opts.ts }
    }
}

/// Timestamps behind two paddings, the layout that RFC 7323 appendix A recommends.
const NOP_NOP_TS: [u8; 4] = [1, 1, 8, 10];
/// Bytes of a header with timestamps and nothing else.
pub const TS_HEADER_LEN: usize = 32;
/// What of the two bytes from the data offset on are control bits.
const ALL_FLAGS: u16 = Flags::AE.0 | 0xff;
/// Where the checksum stands.
pub const CHECKSUM_AT: usize = 16;

/// Reads the header of a segment. Its data is `bytes[header_len..]`. Reserved bits but
/// [`Flags::AE`] are ignored.
///
/// The checksum is not looked at, because a device may have done so: see [`verify_checksum`].
///
/// A broken option list does not make the segment malformed: what stood before the break counts,
/// and [`TcpOptions::broken`] says that there was one.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Segment, Malformed> {
    let mut segment = Segment::default();
    read(bytes, &mut segment)?;
    Ok(segment)
}

/// As [`parse`], into a segment that is empty still: nothing is moved that way.
#[inline(always)]
pub fn read(bytes: &[u8], segment: &mut Segment) -> Result<(), Malformed> {
    let Some(h) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(Malformed::TcpTooShort);
    };
    let header_len = (h[12] >> 4) * 4;
    segment.src_port = u16_at(h, 0);
    segment.dst_port = u16_at(h, 2);
    segment.seq = Seq(u32_at(h, 4));
    segment.ack = Seq(u32_at(h, 8));
    segment.flags = Flags(u16_at(h, 12) & ALL_FLAGS);
    segment.header_len = header_len;
    segment.wnd = u16_at(h, 14);
    segment.urg = u16_at(h, 18);
    if usize::from(header_len) == HEADER_LEN {
        return Ok(());
    }
    let Some(options) = bytes.get(HEADER_LEN..usize::from(header_len)) else {
        return Err(Malformed::TcpBadOffset);
    };
    match <&[u8; TS_HEADER_LEN - HEADER_LEN]>::try_from(options) {
        Ok(o) if o[..4] == NOP_NOP_TS => segment.opts.ts = Some((u32_at(o, 4), u32_at(o, 8))),
        _ => segment.opts = TcpOptions::parse(options),
    }
    Ok(())
}

/// What [`plain_with_stamps`] and [`plain_without_options`] read of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// SEG.SEQ.
    pub seq: Seq,
    /// SEG.ACK; counts only with [`Flags::ACK`].
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Bytes from the start of the segment to its data: 20 or 32.
    pub header_len: u8,
    /// SEG.WND as it stands in the header, not scaled.
    pub wnd: u16,
    /// TSval and TSecr.
    pub ts: Option<(u32, u32)>,
}

/// Reads a header that has the timestamps that RFC 7323 appendix A recommends and no other options,
/// without the ports and the urgent pointer. None: it is another, and [`parse`] reads it.
#[inline(always)]
pub fn plain_with_stamps(bytes: &[u8]) -> Option<Plain> {
    let (h, options) = bytes.first_chunk::<TS_HEADER_LEN>()?.split_first_chunk::<HEADER_LEN>()?;
    // The whole byte: with a reserved bit it is for `parse`.
    if h[12] != (TS_HEADER_LEN * 4) as u8 || options.get(..4) != Some(&NOP_NOP_TS) {
        return None;
    }
    let ts = |at: usize| {
        options.get(at..at + 4).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b))
    };
    Some(plain_of(h, TS_HEADER_LEN, Some((ts(4), ts(8)))))
}

/// As [`plain_with_stamps`], for a header without options.
#[inline(always)]
pub fn plain_without_options(bytes: &[u8]) -> Option<Plain> {
    let h = bytes.first_chunk::<HEADER_LEN>()?;
    (h[12] == (HEADER_LEN * 4) as u8).then(|| plain_of(h, HEADER_LEN, None))
}

#[inline(always)]
fn plain_of(h: &[u8; HEADER_LEN], header_len: usize, ts: Option<(u32, u32)>) -> Plain {
    Plain {
        seq: Seq(u32_at(h, 4)),
        ack: Seq(u32_at(h, 8)),
        flags: Flags(u16::from(h[13])),
        header_len: header_len as u8,
        wnd: u16_at(h, 14),
        ts,
    }
}

/// The options of a segment one by one, as they stand in its header. Empty when the header is
/// malformed.
pub fn raw_options(bytes: &[u8]) -> RawOptions<'_> {
    let header_len = bytes.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
    RawOptions::new(bytes.get(HEADER_LEN..header_len).unwrap_or(&[]))
}

/// Holds the checksum against header, data and addresses.
#[inline]
pub fn verify_checksum(src: &Addr, dst: &Addr, bytes: &[u8]) -> Result<(), Malformed> {
    if checksum::transport_is_valid(src, dst, Proto::TCP, bytes) {
        Ok(())
    } else {
        Err(Malformed::TcpBadChecksum)
    }
}

/// Writes a header with a checksum field of 0 and returns its length, [`TcpOptions::header_len`].
///
/// # Panics
/// When `out` is shorter than that.
#[inline]
pub fn emit(segment: &Segment, out: &mut [u8]) -> usize {
    let opts = &segment.opts;
    if opts.is_ts_at_most() {
        return emit_plain(segment, out);
    }
    let header_len = opts.emit(&mut out[HEADER_LEN..]) + HEADER_LEN;
    emit_fixed(segment, header_len, head::<HEADER_LEN>(out));
    header_len
}

/// As [`emit`], for a segment without options other than timestamps, which are the only ones looked
/// at.
///
/// # Panics
/// When `out` is shorter than the header.
#[inline(always)]
pub fn emit_plain(segment: &Segment, out: &mut [u8]) -> usize {
    let Some((tsval, tsecr)) = segment.opts.ts else {
        emit_fixed(segment, HEADER_LEN, head::<HEADER_LEN>(out));
        return HEADER_LEN;
    };
    let h = head::<TS_HEADER_LEN>(out);
    emit_fixed(segment, TS_HEADER_LEN, h);
    h[20..24].copy_from_slice(&NOP_NOP_TS);
    put32(h, 24, tsval);
    put32(h, 28, tsecr);
    TS_HEADER_LEN
}

/// Writes the checksum.
///
/// # Panics
/// When `segment` is shorter than a header.
#[inline(always)]
pub fn put_checksum(checksum: u16, segment: &mut [u8]) {
    put16(head::<HEADER_LEN>(segment), CHECKSUM_AT, checksum);
}

#[inline(always)]
fn emit_fixed<const N: usize>(segment: &Segment, header_len: usize, h: &mut [u8; N]) {
    put16(h, 0, segment.src_port);
    put16(h, 2, segment.dst_port);
    put32(h, 4, segment.seq.0);
    put32(h, 8, segment.ack.0);
    // The data offset counts words in the upper half of its byte: bytes / 4 * 16.
    put16(h, 12, ((header_len * 4) as u16 * 256) | (segment.flags.0 & ALL_FLAGS));
    put16(h, 14, segment.wnd);
    put16(h, 16, 0);
    put16(h, 18, segment.urg);
}

/// Fills the checksum of a segment, header and data, whose checksum field is 0.
///
/// # Panics
/// When `segment` is shorter than a header.
#[inline]
pub fn fill_checksum(src: &Addr, dst: &Addr, segment: &mut [u8]) {
    let sum = checksum::transport(src, dst, Proto::TCP, segment);
    put16(head::<HEADER_LEN>(segment), 16, sum);
}

/// Like [`fill_checksum`], for data whose sum is known already: only the header, options included,
/// is read.
///
/// # Panics
/// When `header` is shorter than a header.
#[inline]
pub fn fill_checksum_with(
    src: &Addr,
    dst: &Addr,
    header: &mut [u8],
    payload: Sum,
    payload_len: usize,
) {
    let len = (header.len() + payload_len) as u32;
    // A header is a multiple of 4 bytes, so the data's sum needs no shift.
    let sum =
        checksum::pseudo(src, dst, Proto::TCP, len).combine(checksum::sum(header)).combine(payload);
    put16(head::<HEADER_LEN>(header), 16, sum.finish());
}

/// Writes what a device needs to finish the checksum; `len` counts header and data. For a packet
/// that the device cuts into segments it is the length of the whole.
///
/// # Panics
/// When `header` is shorter than a header.
#[inline]
pub fn fill_partial_checksum(src: &Addr, dst: &Addr, len: u32, header: &mut [u8]) {
    put16(head::<HEADER_LEN>(header), 16, checksum::partial(src, dst, Proto::TCP, len));
}

#[cfg(test)]
mod tests;
