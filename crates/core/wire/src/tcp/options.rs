//! TCP options: maximum segment size (RFC 9293 3.2), window scale and timestamps (RFC 7323 2, 3),
//! selective acknowledgment (RFC 2018), counters of ECN (RFC 9768 3.2.3), Fast Open (RFC 7413
//! 2.1.1).
//!
//! Hostile lists. RFC 9293 3.1 asks that an illegal option length be expected (MUST-7) and only
//! suggests a reset. Reading stops at the first option whose length is 0 or 1 or runs past the
//! header: what stood before it counts, the rest is ignored, and [`TcpOptions::broken`] is set so
//! that the segment can be counted. A known option of a wrong length is skipped like one that is
//! not known (MUST-6). Of repeated options the first counts.

use core::fmt;

use crate::bytes::{u16_at, u32_at};
use crate::seq::Seq;

use super::{HEADER_LEN, MAX_OPTIONS_LEN};

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WSCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TS: u8 = 8;
const FAST_OPEN: u8 = 34;
/// The AccECN options (RFC 9768 3.2.3): the counter of ECT(0) first, or that of ECT(1).
const ACC_ECN_0: u8 = 172;
const ACC_ECN_1: u8 = 174;
/// Bytes of one counter.
const COUNTER_LEN: usize = 3;

/// Blocks that fit a header: 40 bytes of options hold at most four (RFC 2018 3).
pub const MAX_SACK_BLOCKS: usize = 4;
/// Bytes of one block.
const SACK_BLOCK_LEN: usize = 8;
/// Bytes of two paddings, type and length before the blocks.
const SACK_FIXED_LEN: usize = 4;

/// Up to four blocks of received data, each from its first sequence number to the one behind its
/// last.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    // Blocks beyond `len` are always zero, so that derived equality is right.
    blocks: [(Seq, Seq); MAX_SACK_BLOCKS],
    len: u8,
}

impl SackBlocks {
    /// No block.
    pub const NONE: SackBlocks = SackBlocks { blocks: [(Seq(0), Seq(0)); MAX_SACK_BLOCKS], len: 0 };

    /// The blocks in the order of the header. Nothing is known of their order or sense.
    #[inline]
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len).min(MAX_SACK_BLOCKS)]
    }

    /// How many there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// There are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a block; false, and nothing added, when there are four.
    #[inline]
    pub fn push(&mut self, left: Seq, right: Seq) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = (left, right);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks by value, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.as_slice().iter().copied()
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// The AccECN option: how many bytes of payload arrived with each ECN codepoint, 24 bits of each
/// counter (RFC 9768 3.2.3).
///
/// Only the first ones may be there. Their order is ECT(0), CE, ECT(1), or the other way round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccEcn {
    /// ECT(1) comes first, ECT(0) last (kind 174).
    pub is_ect1_first: bool,
    /// How many counters there are.
    len: u8,
    /// They, in the order in which they stand. What is not there is zero.
    counters: [[u8; COUNTER_LEN]; 3],
}

impl AccEcn {
    /// The first `count` of three counters, in the order that `is_ect1_first` says. Of each the
    /// lower 24 bits are kept.
    #[inline]
    pub const fn new(is_ect1_first: bool, [ect0, ce, ect1]: [u32; 3], count: usize) -> AccEcn {
        const NONE: [u8; COUNTER_LEN] = [0; COUNTER_LEN];
        let [a, b, c] = if is_ect1_first { [ect1, ce, ect0] } else { [ect0, ce, ect1] };
        let counters = match count {
            0 => [NONE, NONE, NONE],
            1 => [low(a), NONE, NONE],
            2 => [low(a), low(b), NONE],
            _ => [low(a), low(b), low(c)],
        };
        AccEcn { is_ect1_first, counters, len: if count > 3 { 3 } else { count as u8 } }
    }

    /// The counters that are there: ECT(0), CE, ECT(1).
    #[inline]
    pub fn counters(&self) -> [Option<u32>; 3] {
        let [a, b, c] = self.counters.map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]));
        let held =
            [(self.len > 0).then_some(a), (self.len > 1).then_some(b), (self.len > 2).then_some(c)];
        if self.is_ect1_first { [held[2], held[1], held[0]] } else { held }
    }

    /// How many there are.
    #[inline]
    pub const fn count(&self) -> usize {
        self.len as usize
    }

    /// Bytes of an option with `count` counters and the padding behind it.
    #[inline]
    pub const fn padded_len(count: usize) -> usize {
        (2 + COUNTER_LEN * count).next_multiple_of(4)
    }

    /// The option as it stands in a header, without padding.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let kind = if self.is_ect1_first { ACC_ECN_1 } else { ACC_ECN_0 };
        let head = [kind, (2 + COUNTER_LEN * self.count()) as u8];
        let counters = self.counters.iter().take(self.count());
        head.into_iter().chain(counters.copied().flatten())
    }

    fn parse(kind: u8, data: &[u8]) -> Option<AccEcn> {
        // RFC 9768 3.2.3: lengths of 2, 5, 8 and 11; of a longer one the first three counters
        // count.
        let len = (data.len() / COUNTER_LEN).min(3);
        if data.len() % COUNTER_LEN != 0 {
            return None;
        }
        let mut counters = [[0; COUNTER_LEN]; 3];
        for (counter, bytes) in counters.iter_mut().zip(data.chunks_exact(COUNTER_LEN)) {
            counter.copy_from_slice(bytes);
        }
        Some(AccEcn { is_ect1_first: kind == ACC_ECN_1, counters, len: len as u8 })
    }
}

const fn low(counter: u32) -> [u8; COUNTER_LEN] {
    let [_, a, b, c] = counter.to_be_bytes();
    [a, b, c]
}

/// A Fast Open option (RFC 7413 2.1.1): a cookie of 4 to 16 bytes, or none, which asks for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastOpenCookie {
    // Bytes beyond `len` are always zero, so that derived equality is right.
    bytes: [u8; FastOpenCookie::MAX_LEN],
    len: u8,
}

impl FastOpenCookie {
    /// Bytes of a cookie, at most.
    pub const MAX_LEN: usize = 16;
    const MIN_LEN: usize = 4;

    /// An empty one asks for a cookie.
    pub const REQUEST: FastOpenCookie =
        FastOpenCookie { bytes: [0; FastOpenCookie::MAX_LEN], len: 0 };

    /// The cookie with these bytes; None when there cannot be one of that length: 4 to 16 bytes and
    /// an even number, or no byte at all.
    pub fn new(cookie: &[u8]) -> Option<FastOpenCookie> {
        let len = cookie.len();
        if len != 0 && (!(Self::MIN_LEN..=Self::MAX_LEN).contains(&len) || len % 2 != 0) {
            return None;
        }
        let mut bytes = [0; Self::MAX_LEN];
        bytes.get_mut(..len)?.copy_from_slice(cookie);
        Some(FastOpenCookie { bytes, len: len as u8 })
    }

    /// The cookie.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// It only asks for one.
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the option and the padding before it.
    const fn padded_len(&self) -> usize {
        (2 + self.len as usize).next_multiple_of(4)
    }
}

/// The options of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpOptions {
    /// Timestamps: TSval and TSecr.
    pub ts: Option<(u32, u32)>,
    /// Maximum segment size in bytes as it came, 0 too.
    pub mss: Option<u16>,
    /// Window scale as it came; what is above 14 counts as 14 (RFC 7323 2.3).
    pub wscale: Option<u8>,
    /// Selective acknowledgments may be sent.
    pub sack_permitted: bool,
    /// The list was cut short by an option of an illegal length. [`super::emit`] does not read it.
    pub broken: bool,
    /// Selective acknowledgments.
    pub sack: SackBlocks,
    /// Counters of ECN.
    pub acc_ecn: Option<AccEcn>,
    /// A Fast Open cookie, or that one is asked for.
    pub fast_open: Option<FastOpenCookie>,
}

impl TcpOptions {
    /// No option.
    pub const NONE: TcpOptions = TcpOptions {
        ts: None,
        mss: None,
        wscale: None,
        sack_permitted: false,
        broken: false,
        sack: SackBlocks::NONE,
        acc_ecn: None,
        fast_open: None,
    };

    /// Nothing but, perhaps, timestamps.
    #[inline]
    pub const fn is_ts_at_most(&self) -> bool {
        self.mss.is_none()
            && self.wscale.is_none()
            && !self.sack_permitted
            && self.sack.is_empty()
            && self.acc_ecn.is_none()
            && self.fast_open.is_none()
    }

    /// Reads an option list, 0–40 bytes.
    #[inline]
    pub(super) fn parse(list: &[u8]) -> TcpOptions {
        Self::of_usual_syn(list).unwrap_or_else(|| Self::parse_any(list))
    }

    /// The options of a SYN with everything in the order in which [`TcpOptions::emit`] writes it,
    /// and Linux too: [`TcpOptions::parse_any`] reads the same.
    #[inline]
    fn of_usual_syn(list: &[u8]) -> Option<TcpOptions> {
        let &[MSS, 4, a, b, SACK_PERMITTED, 2, TS, 10, ref ts @ .., NOP, WSCALE, 3, shift] = list
        else {
            return None;
        };
        let ts: &[u8; 8] = ts.try_into().ok()?;
        Some(TcpOptions {
            ts: Some((u32_at(ts, 0), u32_at(ts, 4))),
            mss: Some(u16::from_be_bytes([a, b])),
            wscale: Some(shift),
            sack_permitted: true,
            ..TcpOptions::NONE
        })
    }

    #[cold]
    #[inline(never)]
    pub(super) fn parse_any(list: &[u8]) -> TcpOptions {
        let mut opts = TcpOptions::NONE;
        let mut seen_sack = false;
        for option in RawOptions::new(list) {
            match option {
                RawOption::Mss(mss) => opts.mss = opts.mss.or(Some(mss)),
                RawOption::Wscale(shift) => opts.wscale = opts.wscale.or(Some(shift)),
                RawOption::Ts(val, ecr) => opts.ts = opts.ts.or(Some((val, ecr))),
                RawOption::SackPermitted => opts.sack_permitted = true,
                RawOption::Sack(blocks) => {
                    if !seen_sack {
                        opts.sack = blocks;
                    }
                    seen_sack = true;
                }
                RawOption::AccEcn(counters) => opts.acc_ecn = opts.acc_ecn.or(Some(counters)),
                RawOption::FastOpen(cookie) => opts.fast_open = opts.fast_open.or(Some(cookie)),
                RawOption::Broken => opts.broken = true,
                RawOption::End | RawOption::Nop | RawOption::Other { .. } => {}
            }
        }
        opts
    }

    /// The SACK blocks that fit behind the other options.
    #[inline]
    fn sack_fits(&self, other_len: usize) -> usize {
        let room = MAX_OPTIONS_LEN.saturating_sub(other_len + SACK_FIXED_LEN) / SACK_BLOCK_LEN;
        room.min(self.sack.len())
    }

    #[inline]
    fn len_without_sack(&self) -> usize {
        // SACK-permitted takes the place of the two paddings before timestamps, when both are
        // there.
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let wscale = if self.wscale.is_some() { 4 } else { 0 };
        let ts = if self.ts.is_some() { 12 } else { 0 };
        let sack_permitted = if self.sack_permitted && self.ts.is_none() { 4 } else { 0 };
        let acc_ecn = self.acc_ecn.map_or(0, |a| AccEcn::padded_len(a.count()));
        let fast_open = self.fast_open.map_or(0, |cookie| cookie.padded_len());
        mss + wscale + ts + sack_permitted + acc_ecn + fast_open
    }

    /// Bytes of the header that [`super::emit`] writes with these options: 20–60, a multiple of 4.
    /// SACK blocks that do not fit are left out, the last first: three fit beside timestamps.
    #[inline]
    pub fn header_len(&self) -> usize {
        let other = self.len_without_sack();
        let blocks = self.sack_fits(other);
        HEADER_LEN + other + if blocks == 0 { 0 } else { SACK_FIXED_LEN + SACK_BLOCK_LEN * blocks }
    }

    /// Writes the options, every one padded to words, and returns their length.
    #[inline]
    pub(super) fn emit(&self, out: &mut [u8]) -> usize {
        match *self {
            TcpOptions {
                ts: Some(ts),
                mss: Some(mss),
                wscale: Some(shift),
                sack_permitted: true,
                sack,
                acc_ecn: None,
                fast_open: None,
                ..
            } if sack.is_empty() => Self::emit_usual_syn(mss, ts, shift, out),
            _ => self.emit_any(out),
        }
    }

    /// What [`TcpOptions::emit_any`] writes of a SYN that has everything.
    #[inline]
    fn emit_usual_syn(mss: u16, (val, ecr): (u32, u32), shift: u8, out: &mut [u8]) -> usize {
        let ([a, b], [c, d, e, f], [g, h, i, j]) =
            (mss.to_be_bytes(), val.to_be_bytes(), ecr.to_be_bytes());
        let list = [
            MSS,
            4,
            a,
            b,
            SACK_PERMITTED,
            2,
            TS,
            10,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            NOP,
            WSCALE,
            3,
            shift,
        ];
        out[..list.len()].copy_from_slice(&list);
        list.len()
    }

    pub(super) fn emit_any(&self, out: &mut [u8]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            put(&[MSS, 4, a, b]);
        }
        if self.sack_permitted && self.ts.is_some() {
            put(&[SACK_PERMITTED, 2]);
        } else if self.sack_permitted {
            put(&[NOP, NOP, SACK_PERMITTED, 2]);
        } else if self.ts.is_some() {
            put(&[NOP, NOP]);
        }
        if let Some((val, ecr)) = self.ts {
            put(&[TS, 10]);
            put(&val.to_be_bytes());
            put(&ecr.to_be_bytes());
        }
        if let Some(shift) = self.wscale {
            put(&[NOP, WSCALE, 3, shift]);
        }
        if let Some(acc_ecn) = self.acc_ecn {
            let padding = core::iter::repeat(NOP);
            for byte in acc_ecn.bytes().chain(padding).take(AccEcn::padded_len(acc_ecn.count())) {
                put(&[byte]);
            }
        }
        if let Some(cookie) = self.fast_open {
            let len = 2 + cookie.as_slice().len();
            for _ in len..cookie.padded_len() {
                put(&[NOP]);
            }
            put(&[FAST_OPEN, len as u8]);
            put(cookie.as_slice());
        }
        let blocks = self.sack_fits(self.len_without_sack());
        if blocks > 0 {
            put(&[NOP, NOP, SACK, (2 + SACK_BLOCK_LEN * blocks) as u8]);
            for (left, right) in self.sack.iter().take(blocks) {
                put(&left.0.to_be_bytes());
                put(&right.0.to_be_bytes());
            }
        }
        at
    }
}

/// One option as it stands in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawOption<'a> {
    /// The list ends here.
    End,
    /// Padding.
    Nop,
    /// Maximum segment size in bytes.
    Mss(u16),
    /// Window scale.
    Wscale(u8),
    /// Selective acknowledgments may be sent.
    SackPermitted,
    /// Selective acknowledgments, one to four.
    Sack(SackBlocks),
    /// TSval and TSecr.
    Ts(u32, u32),
    /// Counters of ECN.
    AccEcn(AccEcn),
    /// A Fast Open cookie, or that one is asked for.
    FastOpen(FastOpenCookie),
    /// Any other option, or one of these with a wrong length.
    Other {
        /// The kind field.
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
    /// An option whose length is 0 or 1 or runs past the header. It is the last item.
    Broken,
}

/// Goes through an option list. Every step but the last takes at least one byte, so it always ends.
#[derive(Clone, Debug)]
pub struct RawOptions<'a>(&'a [u8]);

impl<'a> RawOptions<'a> {
    /// The options in `list`, which is what lies between the fixed header and the data.
    pub const fn new(list: &'a [u8]) -> RawOptions<'a> {
        RawOptions(list)
    }

    fn split(&self) -> Option<(&'a [u8], &'a [u8])> {
        let len = usize::from(*self.0.get(1)?);
        if len < 2 { None } else { self.0.split_at_checked(len) }
    }
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = RawOption<'a>;
    fn next(&mut self) -> Option<RawOption<'a>> {
        let (&kind, after) = self.0.split_first()?;
        if kind == NOP {
            self.0 = after;
            return Some(RawOption::Nop);
        }
        let list = self.split().filter(|_| kind != END);
        self.0 = list.map_or(&[], |(_, rest)| rest);
        let Some((option, _)) = list else {
            return Some(if kind == END { RawOption::End } else { RawOption::Broken });
        };
        let data = option.get(2..).unwrap_or(&[]);
        Some(known(kind, data).unwrap_or(RawOption::Other { kind, data }))
    }
}

fn known(kind: u8, data: &[u8]) -> Option<RawOption<'static>> {
    match kind {
        MSS => <[u8; 2]>::try_from(data).ok().map(|d| RawOption::Mss(u16_at(&d, 0))),
        WSCALE => <[u8; 1]>::try_from(data).ok().map(|[shift]| RawOption::Wscale(shift)),
        SACK_PERMITTED => data.is_empty().then_some(RawOption::SackPermitted),
        TS => <[u8; 8]>::try_from(data).ok().map(|d| RawOption::Ts(u32_at(&d, 0), u32_at(&d, 4))),
        FAST_OPEN => FastOpenCookie::new(data).map(RawOption::FastOpen),
        ACC_ECN_0 | ACC_ECN_1 => AccEcn::parse(kind, data).map(RawOption::AccEcn),
        SACK => {
            let whole = !data.is_empty() && data.len() % SACK_BLOCK_LEN == 0;
            let mut blocks = SackBlocks::NONE;
            for block in data.chunks_exact(SACK_BLOCK_LEN) {
                let block = block.first_chunk::<SACK_BLOCK_LEN>()?;
                blocks.push(Seq(u32_at(block, 0)), Seq(u32_at(block, 4)));
            }
            whole.then_some(RawOption::Sack(blocks))
        }
        _ => None,
    }
}
