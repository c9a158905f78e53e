//! What IGMP and MLD have in common: queries, reports, and the records of the newest version of
//! either. A message of one reads as one of the other; only the bytes differ, and they are in
//! [`crate::igmp`] and [`crate::mld`].

use crate::addr::Addr;

/// Which version of the protocol a message is of. IGMP has all three (RFC 1112, RFC 2236, RFC
/// 3376); MLD began with the second (RFC 2710, RFC 3810).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Version {
    /// IGMPv1: no leaving, and queries that do not say how long to wait.
    V1,
    /// IGMPv2 and MLDv1: queries for one group, and leaving.
    V2,
    /// IGMPv3 and MLDv2: source filters.
    #[default]
    V3,
}

/// A query: who is a member?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query<'a> {
    /// How old the querier is.
    pub version: Version,
    /// The longest time to wait before an answer, in milliseconds.
    pub max_response_ms: u32,
    /// The group that is asked about; the wildcard for a general query.
    pub group: Addr,
    /// The querier's robustness variable; 0 when it says none.
    pub robustness: u8,
    /// The querier's interval in seconds; 0 when it says none.
    pub interval_s: u32,
    /// The sources that are asked about; none: all of them.
    pub sources: Sources<'a>,
}

/// A list of source addresses of one family, as it stands in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sources<'a> {
    bytes: &'a [u8],
    is_v6: bool,
}

impl<'a> Sources<'a> {
    /// The first `count` addresses of `bytes`; None when there are not so many.
    pub(crate) fn read(bytes: &'a [u8], count: usize, is_v6: bool) -> Option<Sources<'a>> {
        let size = if is_v6 { 16 } else { 4 };
        Some(Sources { bytes: bytes.get(..count * size)?, is_v6 })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / if self.is_v6 { 16 } else { 4 }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Addr> + 'a {
        let is_v6 = self.is_v6;
        self.bytes
            .chunks_exact(if is_v6 { 16 } else { 4 })
            .map(move |chunk| read_addr(chunk, is_v6))
    }
}

/// An address of four or sixteen bytes; the wildcard when there are fewer.
pub(crate) fn read_addr(bytes: &[u8], is_v6: bool) -> Addr {
    if is_v6 {
        bytes.first_chunk().map_or(Addr::ANY_V6, |b| Addr::v6(*b))
    } else {
        bytes.first_chunk().map_or(Addr::ANY_V4, |b| Addr::v4(*b))
    }
}

/// What a record of a report says of a group (RFC 3376 4.2.12, RFC 3810 5.2.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// In answer to a query: only these sources are wanted.
    ModeIsInclude = 1,
    /// In answer to a query: all sources but these are wanted.
    ModeIsExclude = 2,
    /// From now on only these sources are wanted; with none, the group was left.
    ChangeToInclude = 3,
    /// From now on all sources but these are wanted; with none, the group was joined.
    ChangeToExclude = 4,
    /// These sources are wanted too.
    AllowNewSources = 5,
    /// These sources are wanted no longer.
    BlockOldSources = 6,
}

impl RecordKind {
    fn of(value: u8) -> Option<RecordKind> {
        use RecordKind::{
            AllowNewSources, BlockOldSources, ChangeToExclude, ChangeToInclude, ModeIsExclude,
            ModeIsInclude,
        };
        [
            ModeIsInclude,
            ModeIsExclude,
            ChangeToInclude,
            ChangeToExclude,
            AllowNewSources,
            BlockOldSources,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
    }
}

/// One record of a report that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// Of which group.
    pub group: Addr,
    /// About which sources.
    pub sources: Sources<'a>,
}

/// The records of a report that is well formed. Records of a kind that is not known are passed
/// over, as both RFCs want it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    is_v6: bool,
}

impl<'a> Records<'a> {
    /// `count` records in `bytes`; None when they are cut off.
    pub(crate) fn read(bytes: &'a [u8], count: usize, is_v6: bool) -> Option<Records<'a>> {
        let mut rest = bytes;
        for _ in 0..count {
            rest = split_record(rest, is_v6)?.1;
        }
        Some(Records { bytes: &bytes[..bytes.len() - rest.len()], is_v6 })
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Record<'a>> {
        let (mut rest, is_v6) = (self.bytes, self.is_v6);
        core::iter::from_fn(move || {
            let (record, behind) = split_record(rest, is_v6)?;
            rest = behind;
            Some(record)
        })
        .flatten()
    }
}

/// The first record, None when its kind is not known, and what follows it. None: it is cut off.
fn split_record(bytes: &[u8], is_v6: bool) -> Option<(Option<Record<'_>>, &[u8])> {
    let size = if is_v6 { 16 } else { 4 };
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let (group, rest) = rest.split_at_checked(size)?;
    let (sources, rest) =
        rest.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])) * size)?;
    // Auxiliary data is not defined in either RFC and is passed over; its length counts words.
    let rest = rest.get(usize::from(head[1]) * 4..)?;
    let record = RecordKind::of(head[0]).map(|kind| Record {
        kind,
        group: read_addr(group, is_v6),
        sources: Sources { bytes: sources, is_v6 },
    });
    Some((record, rest))
}

/// A message of either protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A router asks.
    Query(Query<'a>),
    /// A member of the first two versions says so.
    Report {
        /// V1 or V2.
        version: Version,
        /// Its group.
        group: Addr,
    },
    /// A member of the second version has left.
    Leave {
        /// Its group.
        group: Addr,
    },
    /// A member of the third version tells.
    Records(Records<'a>),
    /// A type that is neither.
    Other(u8),
}

/// One record of a report that we write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRecord<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// Of which group.
    pub group: Addr,
    /// About which sources, all of the group's family.
    pub sources: &'a [Addr],
}

impl NewRecord<'_> {
    /// Bytes that it takes.
    pub fn emitted_len(&self) -> usize {
        4 + (1 + self.sources.len()) * if self.group.is_v4() { 4 } else { 16 }
    }

    /// Writes it; returns its length.
    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let size = if self.group.is_v4() { 4 } else { 16 };
        let [high, low] = (self.sources.len() as u16).to_be_bytes();
        out[..4].copy_from_slice(&[self.kind as u8, 0, high, low]);
        for (addr, place) in
            core::iter::once(&self.group).chain(self.sources).zip(out[4..].chunks_exact_mut(size))
        {
            place.copy_from_slice(addr.wire_bytes());
        }
        self.emitted_len()
    }
}

/// What we send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outgoing<'a> {
    /// A report of the first or second version.
    Report {
        /// V1 or V2.
        version: Version,
        /// Our group.
        group: Addr,
    },
    /// We have left, in the second version.
    Leave {
        /// The group.
        group: Addr,
    },
    /// A report of the third version.
    Records(&'a [NewRecord<'a>]),
}

/// A code of eight bits that is a small number or a mantissa of four bits with an exponent of three
/// (RFC 3376 4.1.1, RFC 3810 5.1.9).
pub(crate) fn decode_8(code: u8) -> u32 {
    match code {
        0..128 => code.into(),
        _ => (u32::from(code & 15) | 16) << (u32::from(code >> 4 & 7) + 3),
    }
}

#[cfg(test)]
mod tests;
