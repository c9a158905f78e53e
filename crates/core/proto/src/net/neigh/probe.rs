//! Addresses that we want and have not taken yet: whoever has one of them shows himself (RFC 5227
//! 2.1.1, RFC 4862 5.4).
//!
//! Who asks for it says when a probe leaves and how long it is waited for; here is only what came.

use alloc::vec::Vec;

use clearway_pkt::Iface;
use clearway_wire::{Addr, Mac};

/// So many addresses are watched at once.
pub(crate) const MOST: usize = 64;

/// An address that is watched.
#[derive(Clone, Copy, Debug)]
struct Probe {
    iface: Iface,
    addr: Addr,
    /// Who has it, or wants it as well.
    found: Option<Mac>,
}

/// All of them.
pub(crate) struct Probes(Vec<Probe>);

impl Probes {
    /// None yet.
    pub(crate) fn new() -> Probes {
        Probes(Vec::with_capacity(MOST))
    }

    fn find(&mut self, iface: Iface, addr: &Addr) -> Option<&mut Probe> {
        self.0.iter_mut().find(|p| p.iface == iface && p.addr == *addr)
    }

    /// Watches an address from now on, and forgets what was found before. False: there are too
    /// many.
    pub(crate) fn watch(&mut self, iface: Iface, addr: Addr) -> bool {
        if let Some(probe) = self.find(iface, &addr) {
            probe.found = None;
            return true;
        }
        if self.0.len() >= MOST {
            return false;
        }
        self.0.push(Probe { iface, addr, found: None });
        true
    }

    /// Whether an address is watched.
    pub(crate) fn watches(&self, iface: Iface, addr: &Addr) -> bool {
        self.0.iter().any(|p| p.iface == iface && p.addr == *addr)
    }

    /// Watches it no more; who was found.
    pub(crate) fn unwatch(&mut self, iface: Iface, addr: &Addr) -> Option<Mac> {
        let at = self.0.iter().position(|p| p.iface == iface && p.addr == *addr)?;
        self.0.swap_remove(at).found
    }

    /// Who was found so far.
    pub(crate) fn found(&self, iface: Iface, addr: &Addr) -> Option<Mac> {
        self.0.iter().find(|p| p.iface == iface && p.addr == *addr)?.found
    }

    /// Somebody showed that he has an address, or probes for it himself. True: it is watched.
    pub(crate) fn hear(&mut self, iface: Iface, addr: &Addr, mac: Mac) -> bool {
        match self.find(iface, addr) {
            Some(probe) => {
                probe.found.get_or_insert(mac);
                true
            }
            None => false,
        }
    }
}
