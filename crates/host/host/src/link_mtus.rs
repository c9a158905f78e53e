//! MTUs that a DHCP server or a router says for an interface, and its own, which it gets back.

use clearway_pkt::Iface;

use crate::teller::Teller;

struct LinkMtu {
    iface: Iface,
    /// What it had before anybody said anything.
    own: u32,
    said: Vec<(Teller, u32)>,
}

/// All interfaces for which somebody says one.
#[derive(Default)]
pub(crate) struct LinkMtus(Vec<LinkMtu>);

impl LinkMtus {
    /// What an interface has when nobody says anything; None: nobody does.
    pub(crate) fn own(&self, iface: Iface) -> Option<u32> {
        self.0.iter().find(|link| link.iface == iface).map(|link| link.own)
    }

    /// Somebody says an MTU for an interface that has `now`, or none any more: what it is to have.
    /// More than its own it never has, and of two the smaller.
    pub(crate) fn say(&mut self, iface: Iface, now: u32, who: Teller, said: Option<u32>) -> u32 {
        let at = self.0.iter().position(|link| link.iface == iface);
        let at = at.unwrap_or_else(|| {
            self.0.push(LinkMtu { iface, own: now, said: Vec::new() });
            self.0.len() - 1
        });
        let link = &mut self.0[at];
        link.said.retain(|(other, _)| *other != who);
        link.said.extend(said.filter(|said| *said < link.own).map(|said| (who, said)));
        let mtu = link.said.iter().map(|(_, said)| *said).min().unwrap_or(link.own);
        if link.said.is_empty() {
            self.0.remove(at);
        }
        mtu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_two_mtus_counts_and_the_own_one_comes_back() {
        let mut mtus = LinkMtus::default();
        assert_eq!(mtus.say(Iface(1), 1500, Teller::Dhcp, Some(1400)), 1400);
        assert_eq!(mtus.say(Iface(2), 9000, Teller::Router, None), 9000);
        assert_eq!(mtus.say(Iface(1), 1400, Teller::Router, Some(1300)), 1300);
        assert_eq!((mtus.own(Iface(1)), mtus.own(Iface(2))), (Some(1500), None));
        assert_eq!(mtus.say(Iface(1), 1300, Teller::Router, Some(1600)), 1400);
        assert_eq!(mtus.say(Iface(1), 1400, Teller::Dhcp, None), 1500);
        assert_eq!(mtus.own(Iface(1)), None);
    }
}
