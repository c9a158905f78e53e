//! The fast path out, for the segments that nearly all segments are: one piece, over a path that is
//! known, with no options but timestamps. What leaves is byte for byte what [`IpOut::begin`], the
//! header's `emit` and `finish` make of it.

use clearway_base::Instant;
use clearway_pkt::{Iface, Sink, TxMeta};
use clearway_wire::checksum::{self, Sum};
use clearway_wire::{EtherType, Mac, Proto, Segment, eth, ipv4, ipv6, tcp};

use super::{OutError, RouteCache};
use crate::counters::Counters;
use crate::flow::FlowKey;
use crate::net::iface::Interface;
use crate::net::ip::Ip;

/// A path out that is known as it stands, for the time of one packet.
#[derive(Clone, Copy)]
pub(crate) struct CachedPath<'i> {
    iface: Iface,
    /// The link address that it goes to; zeros on a link without addresses.
    mac: Mac,
    /// The longest IP packet in bytes.
    mtu: u16,
    interface: &'i Interface,
}

/// The path that `cache` remembers, if it still holds and nothing has to be waited for. None: ask
/// [`IpOut::path`].
#[inline(always)]
pub(crate) fn cached_path<'i>(
    ip: &'i mut Ip,
    now: Instant,
    cache: &RouteCache,
) -> Option<CachedPath<'i>> {
    if cache.generation != ip.generation() {
        return None;
    }
    let mac = match cache.neighbour {
        None => Mac::ZERO,
        Some(at) => ip.neighbours.usable(at, now)?,
    };
    Some(CachedPath {
        iface: cache.iface,
        mac,
        mtu: cache.mtu,
        interface: ip.ifaces.get(usize::from(cache.iface.0))?,
    })
}

/// What one segment is, apart from its header's numbers and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct SegmentOut<'a> {
    pub(crate) key: &'a FlowKey,
    /// The family of `key`.
    pub(crate) is_v4: bool,
    /// The options are timestamps, and none otherwise.
    pub(crate) is_stamped: bool,
    /// Bytes of payload.
    pub(crate) payload: usize,
    pub(crate) tos: &'a u8,
    pub(crate) ttl: &'a u8,
}

/// Sends one segment, whose payload `fill` writes; it says whether it had the bytes, and if not,
/// nothing leaves and this is false. `head` says the header. The caller has made the segment for
/// this path's MTU.
///
/// # Errors
/// As [`IpOut::begin`](super::IpOut::begin), and nothing has changed.
#[inline(always)]
pub(crate) fn send_segment<S: Sink>(
    sink: &mut S,
    counters: &mut Counters,
    path: CachedPath<'_>,
    out: SegmentOut<'_>,
    head: impl FnOnce() -> Segment,
    fill: impl FnOnce(&mut [u8]) -> bool,
) -> Result<bool, OutError> {
    let SegmentOut { key, is_v4, is_stamped, payload, tos, ttl } = out;
    let header_len = if is_stamped { tcp::TS_HEADER_LEN } else { tcp::HEADER_LEN };
    let l4_len = header_len + payload;
    let link_len = usize::from(path.interface.link_len);
    let l4_at = link_len + if is_v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let len = l4_at + l4_len;
    debug_assert!(len - link_len <= usize::from(path.mtu), "a segment longer than the path allows");
    let frame = sink.reserve(path.iface, len).ok_or(OutError::Full)?;
    let (below, l4) =
        frame.get_mut(..len).and_then(|f| f.split_at_mut_checked(l4_at)).ok_or(OutError::Full)?;
    let (link, packet) = below.split_at_mut_checked(link_len).ok_or(OutError::Full)?;
    if link_len != 0 {
        eth::emit(
            path.mac,
            path.interface.mac,
            if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 },
            link,
        );
    }
    let put = if is_v4 { put_v4 } else { put_v6 };
    let pseudo = put(key, *tos, *ttl, l4_len, packet);
    // Only now, so that none of it has to be kept while the sink makes room.
    tcp::emit_plain(&head(), l4);
    if !l4.get_mut(header_len..).is_some_and(fill) {
        return Ok(false);
    }
    let mut meta = TxMeta::default();
    let offloads = &path.interface.offloads;
    if !offloads.trusted_link {
        let sum = if offloads.tx_checksum {
            (meta.checksum_start, meta.checksum_offset) = (l4_at as u16, tcp::CHECKSUM_AT as u16);
            pseudo.fold()
        } else {
            // Zero and all ones mean the same to who checks; `finish` writes the latter.
            match checksum::sum_from(pseudo, l4).finish() {
                0 => 0xffff,
                sum => sum,
            }
        };
        tcp::put_checksum(sum, l4);
    }
    counters.ip.bytes_out += len as u64;
    sink.commit(path.iface, len, meta);
    counters.ip.packets_out += 1;
    Ok(true)
}

/// Writes the IPv4 header, and gives the sum of the pseudo header.
#[inline(always)]
fn put_v4(key: &FlowKey, tos: u8, ttl: u8, l4_len: usize, out: &mut [u8]) -> Sum {
    let (src, dst, len) = (key.local.v4_octets(), key.remote.v4_octets(), l4_len as u16);
    checksum::pseudo_of(ipv4::emit_plain_tcp(src, dst, tos, ttl, len, out), Proto::TCP, len)
}

/// Writes the IPv6 header, and gives the sum of the pseudo header.
#[inline(always)]
fn put_v6(key: &FlowKey, tos: u8, ttl: u8, l4_len: usize, out: &mut [u8]) -> Sum {
    let header = ipv6::Header {
        src: key.local,
        dst: key.remote,
        next: Proto::TCP,
        traffic_class: tos,
        flow_label: 0,
        hop_limit: ttl,
        payload_len: l4_len as u16,
    };
    ipv6::emit(&header, out);
    checksum::pseudo(&key.local, &key.remote, Proto::TCP, l4_len as u32)
}
