//! ICMP for IPv4 (RFC 792, RFC 1122 3.2.2; next-hop MTU RFC 1191 4).

use crate::addr::Addr;
use crate::bytes::{head, put16, put32, u16_at, u32_at};
use crate::checksum;
use crate::malformed::Malformed;

/// Bytes before the data of every message.
pub const HEADER_LEN: usize = 8;

/// Unreachable: the network.
pub const UNREACHABLE_NET: u8 = 0;
/// Unreachable: the host.
pub const UNREACHABLE_HOST: u8 = 1;
/// Unreachable: the protocol has no receiver.
pub const UNREACHABLE_PROTOCOL: u8 = 2;
/// Unreachable: the port has no receiver.
pub const UNREACHABLE_PORT: u8 = 3;
/// Unreachable: too long for the next link, and DF is set.
pub const UNREACHABLE_FRAGMENTATION_NEEDED: u8 = 4;
/// Unreachable: a source route failed.
pub const UNREACHABLE_SOURCE_ROUTE: u8 = 5;
/// Unreachable: forbidden by a filter (RFC 1812 5.2.7.1).
pub const UNREACHABLE_PROHIBITED: u8 = 13;
/// Time exceeded: on the way.
pub const TIME_EXCEEDED_TTL: u8 = 0;
/// Time exceeded: while fragments were missing.
pub const TIME_EXCEEDED_REASSEMBLY: u8 = 1;

/// A message by its type. `quoted` is the packet that caused an error, as far as it was sent back;
/// see [`crate::ip::quote`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv4<'a> {
    /// Type 8.
    EchoRequest {
        /// Chosen by the asker.
        id: u16,
        /// Counted by the asker.
        seq: u16,
        /// To be sent back unchanged.
        data: &'a [u8],
    },
    /// Type 0.
    EchoReply {
        /// From the request.
        id: u16,
        /// From the request.
        seq: u16,
        /// From the request.
        data: &'a [u8],
    },
    /// Type 3.
    Unreachable {
        /// One of the `UNREACHABLE_` values, or another.
        code: u8,
        /// Next-hop MTU in bytes with code 4, 0 when the router did not say; without meaning
        /// otherwise.
        mtu: u16,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 5.
    Redirect {
        /// 0–3: for a network or host, with or without type of service.
        code: u8,
        /// The better first hop.
        gateway: Addr,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 11.
    TimeExceeded {
        /// One of the `TIME_EXCEEDED_` values.
        code: u8,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Type 12.
    ParamProblem {
        /// 0: the pointer names the byte; 1: an option is missing; 2: bad length.
        code: u8,
        /// Offset of the fault in the quoted packet.
        pointer: u8,
        /// The packet that caused it.
        quoted: &'a [u8],
    },
    /// Any other type.
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

impl Icmpv4<'_> {
    /// An error message, which must never be answered with another (RFC 1122 3.2.2).
    pub const fn is_error(&self) -> bool {
        match self {
            Icmpv4::Unreachable { .. } | Icmpv4::Redirect { .. } => true,
            Icmpv4::TimeExceeded { .. } | Icmpv4::ParamProblem { .. } => true,
            // Type 4 was source quench.
            Icmpv4::Other { kind, .. } => *kind == 4,
            Icmpv4::EchoRequest { .. } | Icmpv4::EchoReply { .. } => false,
        }
    }

    fn data(&self) -> &[u8] {
        match self {
            Icmpv4::EchoRequest { data, .. }
            | Icmpv4::EchoReply { data, .. }
            | Icmpv4::Other { data, .. } => data,
            Icmpv4::Unreachable { quoted, .. } | Icmpv4::Redirect { quoted, .. } => quoted,
            Icmpv4::TimeExceeded { quoted, .. } | Icmpv4::ParamProblem { quoted, .. } => quoted,
        }
    }

    /// Bytes that [`emit`] writes.
    pub fn emitted_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }
}

/// Reads a message from the payload of an IPv4 packet.
///
/// `verify_checksum` is false when the device has verified it already.
pub fn check(bytes: &[u8], verify_checksum: bool) -> Result<Icmpv4<'_>, Malformed> {
    let (h, data) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Icmpv4TooShort)?;
    if verify_checksum && !checksum::sum(bytes).is_valid() {
        return Err(Malformed::Icmpv4BadChecksum);
    }
    let (kind, code) = (h[0], h[1]);
    let rest = [h[4], h[5], h[6], h[7]];
    Ok(match (kind, code) {
        (0, 0) => Icmpv4::EchoReply { id: u16_at(h, 4), seq: u16_at(h, 6), data },
        (8, 0) => Icmpv4::EchoRequest { id: u16_at(h, 4), seq: u16_at(h, 6), data },
        (3, _) => Icmpv4::Unreachable { code, mtu: u16_at(h, 6), quoted: data },
        (5, _) => Icmpv4::Redirect { code, gateway: Addr::v4(rest), quoted: data },
        (11, _) => Icmpv4::TimeExceeded { code, quoted: data },
        (12, _) => Icmpv4::ParamProblem { code, pointer: h[4], quoted: data },
        _ => Icmpv4::Other { kind, code, rest, data },
    })
}

/// Writes a message with its checksum and returns its length, [`Icmpv4::emitted_len`].
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit(message: &Icmpv4<'_>, out: &mut [u8]) -> usize {
    let data = message.data();
    let (kind, code, rest) = match *message {
        Icmpv4::EchoReply { id, seq, .. } => (0, 0, u32::from(id) << 16 | u32::from(seq)),
        Icmpv4::EchoRequest { id, seq, .. } => (8, 0, u32::from(id) << 16 | u32::from(seq)),
        Icmpv4::Unreachable { code, mtu, .. } => (3, code, u32::from(mtu)),
        Icmpv4::Redirect { code, gateway, .. } => {
            (5, code, u32::from_be_bytes(gateway.v4_octets()))
        }
        Icmpv4::TimeExceeded { code, .. } => (11, code, 0),
        Icmpv4::ParamProblem { code, pointer, .. } => (12, code, u32::from(pointer) << 24),
        Icmpv4::Other { kind, code, rest, .. } => (kind, code, u32::from_be_bytes(rest)),
    };
    let data_sum = checksum::copy_and_sum(data, &mut out[HEADER_LEN..]);
    let h = head::<HEADER_LEN>(out);
    h[0] = kind;
    h[1] = code;
    put16(h, 2, 0);
    put32(h, 4, rest);
    let sum = data_sum.add16(u16_at(h, 0)).add32(u32_at(h, 4)).finish();
    put16(h, 2, sum);
    HEADER_LEN + data.len()
}

#[cfg(test)]
mod tests;
