//! ICMPv6 (RFC 4443). Neighbour discovery messages are in [`crate::ndp`].

use crate::addr::Addr;
use crate::bytes::{head, put16, put32, u16_at, u32_at};
use crate::checksum;
use crate::ip::Proto;
use crate::malformed::Malformed;
use crate::ndp::{self, Ndp};

/// Bytes before the data of every message that is not neighbour discovery.
pub const HEADER_LEN: usize = 8;

/// Unreachable: no route.
pub const UNREACHABLE_NO_ROUTE: u8 = 0;
/// Unreachable: forbidden by a filter.
pub const UNREACHABLE_PROHIBITED: u8 = 1;
/// Unreachable: the address.
pub const UNREACHABLE_ADDRESS: u8 = 3;
/// Unreachable: the port has no receiver.
pub const UNREACHABLE_PORT: u8 = 4;
/// Time exceeded: on the way.
pub const TIME_EXCEEDED_HOP_LIMIT: u8 = 0;
/// Time exceeded: while fragments were missing.
pub const TIME_EXCEEDED_REASSEMBLY: u8 = 1;
/// Parameter problem: a header field is wrong.
pub const PARAM_ERRONEOUS_FIELD: u8 = 0;
/// Parameter problem: the next header is not known.
pub const PARAM_UNKNOWN_NEXT_HEADER: u8 = 1;
/// Parameter problem: an option is not known.
pub const PARAM_UNKNOWN_OPTION: u8 = 2;
/// Parameter problem: the first fragment does not hold the header chain (RFC 7112 6).
pub const PARAM_INCOMPLETE_CHAIN: u8 = 3;

/// A message by its type. `quoted` is the packet that caused an error, as far as it was sent back;
/// see [`crate::ip::quote`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv6<'a> {
    /// Type 1.
    Unreachable {
        /// One of the `UNREACHABLE_` values, or another.
        code: u8,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 2.
    PacketTooBig {
        /// MTU of the next link in bytes; below 1280 it is a lie or a translator (RFC 8201 4).
        mtu: u32,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 3.
    TimeExceeded {
        /// One of the `TIME_EXCEEDED_` values.
        code: u8,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 4.
    ParamProblem {
        /// One of the `PARAM_` values, or another.
        code: u8,
        /// Offset of the fault in the quoted packet.
        pointer: u32,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 128.
    EchoRequest {
        /// Chosen by the asker.
        id: u16,
        /// Counted by the asker.
        seq: u16,
        /// To be sent back unchanged.
        data: &'a [u8],
    },
    /// Type 129.
    EchoReply {
        /// From the request.
        id: u16,
        /// From the request.
        seq: u16,
        /// From the request.
        data: &'a [u8],
    },
    /// Types 133–137.
    Ndp(Ndp<'a>),
    /// Any other type; multicast listener messages are among them.
    Other {
        /// The type field.
        kind: u8,
        /// The code field.
        code: u8,
        /// The second four bytes of the header.
        rest: [u8; 4],
        /// What follows the header.
        data: &'a [u8],
    },
}

impl Icmpv6<'_> {
    /// An error message, which must never be answered with another (RFC 4443 2.4 (e.1)); types
    /// below 128 are errors.
    pub const fn is_error(&self) -> bool {
        match self {
            Icmpv6::Unreachable { .. } | Icmpv6::PacketTooBig { .. } => true,
            Icmpv6::TimeExceeded { .. } | Icmpv6::ParamProblem { .. } => true,
            Icmpv6::Other { kind, .. } => *kind < 128,
            // Redirects count as errors for this rule (RFC 4443 2.4 (e.2)).
            Icmpv6::Ndp(ndp) => matches!(ndp, Ndp::Redirect { .. }),
            Icmpv6::EchoRequest { .. } | Icmpv6::EchoReply { .. } => false,
        }
    }

    fn data(&self) -> &[u8] {
        match self {
            Icmpv6::EchoRequest { data, .. }
            | Icmpv6::EchoReply { data, .. }
            | Icmpv6::Other { data, .. } => data,
            Icmpv6::Unreachable { quoted, .. } | Icmpv6::PacketTooBig { quoted, .. } => quoted,
            Icmpv6::TimeExceeded { quoted, .. } | Icmpv6::ParamProblem { quoted, .. } => quoted,
            Icmpv6::Ndp(_) => &[],
        }
    }

    /// Bytes that [`emit`] writes.
    pub fn emitted_len(&self) -> usize {
        match self {
            Icmpv6::Ndp(message) => message.emitted_len(),
            _ => HEADER_LEN + self.data().len(),
        }
    }
}

/// Reads a message from the upper part of an IPv6 packet. The addresses are those of the IPv6
/// header, for the pseudo header, and they and `hop_limit` decide whether neighbour discovery is to
/// be believed (RFC 4861 6.1, 7.1, 8.1).
///
/// `verify_checksum` is false when the device has verified it already.
pub fn check<'a>(
    src: &Addr,
    dst: &Addr,
    hop_limit: u8,
    bytes: &'a [u8],
    verify_checksum: bool,
) -> Result<Icmpv6<'a>, Malformed> {
    let (h, data) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Icmpv6TooShort)?;
    if verify_checksum && !checksum::transport_is_valid(src, dst, Proto::ICMPV6, bytes) {
        return Err(Malformed::Icmpv6BadChecksum);
    }
    let (kind, code) = (h[0], h[1]);
    Ok(match (kind, code) {
        (1, _) => Icmpv6::Unreachable { code, quoted: data },
        (2, _) => Icmpv6::PacketTooBig { mtu: u32_at(h, 4), quoted: data },
        (3, _) => Icmpv6::TimeExceeded { code, quoted: data },
        (4, _) => Icmpv6::ParamProblem { code, pointer: u32_at(h, 4), quoted: data },
        (128, 0) => Icmpv6::EchoRequest { id: u16_at(h, 4), seq: u16_at(h, 6), data },
        (129, 0) => Icmpv6::EchoReply { id: u16_at(h, 4), seq: u16_at(h, 6), data },
        (133..=137, _) => Icmpv6::Ndp(ndp::check(src, dst, hop_limit, bytes)?),
        _ => Icmpv6::Other { kind, code, rest: [h[4], h[5], h[6], h[7]], data },
    })
}

/// Writes a message with its checksum and returns its length, [`Icmpv6::emitted_len`]. Neighbour
/// discovery must leave with hop limit 255.
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit(src: &Addr, dst: &Addr, message: &Icmpv6<'_>, out: &mut [u8]) -> usize {
    let data = message.data();
    let (kind, code, rest) = match *message {
        Icmpv6::Unreachable { code, .. } => (1, code, 0),
        Icmpv6::PacketTooBig { mtu, .. } => (2, 0, mtu),
        Icmpv6::TimeExceeded { code, .. } => (3, code, 0),
        Icmpv6::ParamProblem { code, pointer, .. } => (4, code, pointer),
        Icmpv6::EchoRequest { id, seq, .. } => (128, 0, u32::from(id) << 16 | u32::from(seq)),
        Icmpv6::EchoReply { id, seq, .. } => (129, 0, u32::from(id) << 16 | u32::from(seq)),
        Icmpv6::Other { kind, code, rest, .. } => (kind, code, u32::from_be_bytes(rest)),
        Icmpv6::Ndp(message) => {
            let len = ndp::emit(&message, out);
            let sum = checksum::transport(src, dst, Proto::ICMPV6, &out[..len]);
            put16(head::<HEADER_LEN>(out), 2, sum);
            return len;
        }
    };
    let len = HEADER_LEN + data.len();
    let data_sum = checksum::copy_and_sum(data, &mut out[HEADER_LEN..]);
    let h = head::<HEADER_LEN>(out);
    h[0] = kind;
    h[1] = code;
    put16(h, 2, 0);
    put32(h, 4, rest);
    let pseudo = checksum::pseudo(src, dst, Proto::ICMPV6, len as u32);
    let sum = pseudo.combine(data_sum).add16(u16_at(h, 0)).add32(u32_at(h, 4)).finish();
    put16(h, 2, sum);
    len
}

#[cfg(test)]
mod tests;
