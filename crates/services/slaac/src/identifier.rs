//! The last 64 bits of our addresses (RFC 7217): the same on a network each time, others on each
//! network, and nothing of the Ethernet address in them.

use clearway_base::sip::sip_2_4_bytes;
use clearway_wire::{Addr, Mac};

/// The address of an interface in a prefix of 64 bits, as RFC 7217 5 makes it: by a keyed hash of
/// the prefix, the interface and how many of its addresses others had already.
///
/// The interface is its Ethernet address. Names such as tap0 are the same in every host of a
/// machine, and two that ask for the same address at the same time both go without it.
pub(crate) fn address(secret: &[u8; 16], prefix: &Addr, mac: Mac, conflicts: u8) -> Addr {
    let [network @ .., _, _, _, _, _, _, _, _] = *prefix.octets();
    // RFC 7217 5, step 3: identifiers that are reserved are passed over.
    let made = (0..=u8::MAX)
        .map(|again| sip_2_4_bytes(secret, [&network[..], &mac.0[..], &[conflicts, again][..]]));
    let identifier = made.into_iter().find(|made| !is_reserved(*made)).unwrap_or(1);
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&network);
    octets[8..].copy_from_slice(&identifier.to_be_bytes());
    Addr::v6(octets)
}

/// Those of IANA's registry (RFC 5453): all routers of a subnet, Ethernet's block of IANA, anycast
/// addresses of a subnet.
fn is_reserved(identifier: u64) -> bool {
    identifier == 0
        || identifier >> 24 == 0x02_005e_fffe
        || (0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff).contains(&identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 16] = [7; 16];
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn addr(text: &str) -> Addr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_the_same_each_time_and_another_in_each_network_and_interface() {
        let first = address(&SECRET, &addr("2001:db8:1::"), MAC, 0);
        assert_eq!(address(&SECRET, &addr("2001:db8:1::"), MAC, 0), first);
        assert!(first.shares_prefix(&addr("2001:db8:1::"), 64));
        // Bits behind the prefix do not count.
        assert_eq!(address(&SECRET, &addr("2001:db8:1::9"), MAC, 0), first);
        let identifier = |a: Addr| a.octets()[8..].to_vec();
        let others = [
            address(&SECRET, &addr("2001:db8:2::"), MAC, 0),
            address(&SECRET, &addr("2001:db8:1::"), Mac([2, 0, 0, 0, 0, 2]), 0),
            address(&SECRET, &addr("2001:db8:1::"), MAC, 1),
            address(&[8; 16], &addr("2001:db8:1::"), MAC, 0),
        ];
        for other in others {
            assert_ne!(identifier(other), identifier(first), "{other}");
        }
    }

    #[test]
    fn identifiers_that_are_reserved_are_known() {
        for reserved in [0, 0x0200_5eff_fe00_5213, 0xfdff_ffff_ffff_fffe, 0xfdff_ffff_ffff_ff80] {
            assert!(is_reserved(reserved), "{reserved:x}");
        }
        for free in [1, 0xfdff_ffff_ffff_ff7f, 0x0200_5eff_ff00_0000, u64::MAX] {
            assert!(!is_reserved(free), "{free:x}");
        }
    }
}
