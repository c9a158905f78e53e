//! UDP (RFC 768; over IPv6 RFC 8200 8.1).

use crate::addr::Addr;
use crate::bytes::{head, put16, u16_at};
use crate::checksum::{self, Sum};
use crate::ip::Proto;
use crate::malformed::Malformed;

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// A datagram whose length is sound.
#[derive(Clone, Copy)]
pub struct Udp<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

/// Looks at a datagram; the addresses are those of the IP header. Bytes beyond the length field are
/// cut off.
///
/// `verify_checksum` is false when the device has verified it already. A checksum of 0 means "none"
/// over IPv4, and is refused over IPv6.
#[inline]
pub fn check<'a>(
    src: &Addr,
    dst: &Addr,
    bytes: &'a [u8],
    verify_checksum: bool,
) -> Result<Udp<'a>, Malformed> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(Malformed::UdpTooShort);
    };
    let len = usize::from(u16_at(header, 4));
    let Some(payload) = bytes.get(HEADER_LEN..len) else {
        return Err(Malformed::UdpBadLength);
    };
    if u16_at(header, 6) == 0 {
        return if src.is_v4() {
            Ok(Udp { header, payload })
        } else {
            Err(Malformed::UdpZeroChecksumV6)
        };
    }
    if verify_checksum && !checksum::transport_is_valid(src, dst, Proto::UDP, &bytes[..len]) {
        return Err(Malformed::UdpBadChecksum);
    }
    Ok(Udp { header, payload })
}

impl<'a> Udp<'a> {
    /// Source port; 0 when no answer is expected.
    #[inline]
    pub fn src_port(&self) -> u16 {
        u16_at(self.header, 0)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.header, 2)
    }

    /// The data.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Writes a header with a checksum field of 0 and returns [`HEADER_LEN`]. `payload_len` is in
/// bytes, at most 65527.
///
/// # Panics
/// When `out` is shorter than that.
#[inline]
pub fn emit(src_port: u16, dst_port: u16, payload_len: u16, out: &mut [u8]) -> usize {
    let h = head::<HEADER_LEN>(out);
    put16(h, 0, src_port);
    put16(h, 2, dst_port);
    put16(h, 4, payload_len.wrapping_add(HEADER_LEN as u16));
    put16(h, 6, 0);
    HEADER_LEN
}

/// Fills the checksum of a datagram, header and data, whose checksum field is 0.
///
/// # Panics
/// When `datagram` is shorter than a header.
#[inline]
pub fn fill_checksum(src: &Addr, dst: &Addr, datagram: &mut [u8]) {
    let sum = checksum::transport(src, dst, Proto::UDP, datagram);
    write_checksum(sum, datagram);
}

/// Like [`fill_checksum`], for data whose sum is known already: only the header is read.
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
    let len = (HEADER_LEN + payload_len) as u32;
    let sum = checksum::pseudo(src, dst, Proto::UDP, len)
        .combine(checksum::sum(head::<HEADER_LEN>(header)));
    write_checksum(sum.combine(payload).finish(), header);
}

/// Writes what a device needs to finish the checksum; `len` counts header and data.
///
/// # Panics
/// When `header` is shorter than a header.
#[inline]
pub fn fill_partial_checksum(src: &Addr, dst: &Addr, len: u32, header: &mut [u8]) {
    put16(head::<HEADER_LEN>(header), 6, checksum::partial(src, dst, Proto::UDP, len));
}

#[inline]
fn write_checksum(sum: u16, header: &mut [u8]) {
    put16(head::<HEADER_LEN>(header), 6, checksum::never_zero(sum));
}

#[cfg(test)]
mod tests;
