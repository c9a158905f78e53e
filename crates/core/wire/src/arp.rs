//! ARP for IPv4 over Ethernet (RFC 826).

use crate::addr::Addr;
use crate::bytes::{head, put16, u16_at};
use crate::eth::Mac;
use crate::malformed::Malformed;

/// Bytes of a packet; frames carry padding behind it.
pub const LEN: usize = 28;

/// Request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Operation {
    /// Who has the target address?
    Request = 1,
    /// The sender has the sender address.
    Reply = 2,
}

/// A whole packet by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// Request or reply.
    pub operation: Operation,
    /// Link address of the sender.
    pub sender_mac: Mac,
    /// IPv4 address of the sender; 0.0.0.0 in a probe (RFC 5227 2.1.1).
    pub sender: Addr,
    /// Link address of the target; without meaning in a request.
    pub target_mac: Mac,
    /// IPv4 address of the target.
    pub target: Addr,
}

/// Ethernet as a hardware type (IANA "ARP Parameters").
const HARDWARE_ETHERNET: u16 = 1;
/// IPv4 as a protocol type: its ethertype.
const PROTOCOL_IPV4: u16 = 0x0800;

/// Reads a packet from the payload of a frame; padding behind it is ignored.
pub fn check(bytes: &[u8]) -> Result<Arp, Malformed> {
    let b = bytes.first_chunk::<LEN>().ok_or(Malformed::ArpTooShort)?;
    if u16_at(b, 0) != HARDWARE_ETHERNET || u16_at(b, 2) != PROTOCOL_IPV4 || b[4] != 6 || b[5] != 4
    {
        return Err(Malformed::ArpNotEthernetIpv4);
    }
    let operation = match u16_at(b, 6) {
        1 => Operation::Request,
        2 => Operation::Reply,
        _ => return Err(Malformed::ArpUnknownOperation),
    };
    Ok(Arp {
        operation,
        sender_mac: Mac([b[8], b[9], b[10], b[11], b[12], b[13]]),
        sender: Addr::v4([b[14], b[15], b[16], b[17]]),
        target_mac: Mac([b[18], b[19], b[20], b[21], b[22], b[23]]),
        target: Addr::v4([b[24], b[25], b[26], b[27]]),
    })
}

/// Writes a packet and returns [`LEN`].
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit(arp: &Arp, out: &mut [u8]) -> usize {
    let b = head::<LEN>(out);
    put16(b, 0, HARDWARE_ETHERNET);
    put16(b, 2, PROTOCOL_IPV4);
    b[4] = 6;
    b[5] = 4;
    put16(b, 6, arp.operation as u16);
    b[8..14].copy_from_slice(&arp.sender_mac.0);
    b[14..18].copy_from_slice(&arp.sender.v4_octets());
    b[18..24].copy_from_slice(&arp.target_mac.0);
    b[24..28].copy_from_slice(&arp.target.v4_octets());
    LEN
}

#[cfg(test)]
mod tests;
