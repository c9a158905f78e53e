//! What commands made that nobody but them can tell again.

use clearway_base::Instant;
use clearway_dev::{FaultSpec, PortSpec};
use clearway_pkt::Iface;
use clearway_ports::NetnsId;
use clearway_proto::{InterfaceInfo, Link};
use clearway_wire::{Cidr, Mac};

/// How an interface came to be.
pub(crate) struct Recipe {
    iface: Iface,
    /// The command that makes it again.
    pub(crate) line: String,
    /// What it had then.
    pub(crate) mtu: u32,
    pub(crate) mac: Option<Mac>,
    /// What it is opened by again when it was lost.
    pub(crate) port: Option<(PortSpec, Option<FaultSpec>)>,
    /// Where its TAP interface is, when that is a network namespace with a name.
    pub(crate) netns: Option<NetnsId>,
    /// Addresses of the other end, which goes with a TAP interface.
    pub(crate) host_addresses: Vec<Cidr>,
}

/// An interface whose port is of no more use.
#[derive(Clone)]
pub(crate) struct Lost {
    pub(crate) iface: Iface,
    pub(crate) name: String,
    /// Why it was lost, and when.
    pub(crate) why: String,
    pub(crate) since: Instant,
    /// Why it could not be opened again, when that was tried.
    pub(crate) refused: Option<String>,
}

/// Everything of that kind.
#[derive(Default)]
pub(crate) struct Made {
    recipes: Vec<Recipe>,
    /// How workers wait for an interface's packets, by queue or for all, in the order in which it
    /// was said.
    modes: Vec<(Iface, Option<u16>, &'static str)>,
    /// Interfaces that somebody wants to be up.
    wanted_up: Vec<Iface>,
    lost: Vec<Lost>,
    /// How often an interface was lost.
    losses: Vec<(Iface, u64)>,
}

impl Made {
    /// An interface was made by this command.
    pub(crate) fn interface(&mut self, iface: Iface, line: String, mtu: u32, mac: Option<Mac>) {
        self.forget(iface);
        let (port, netns, host_addresses) = (None, None, Vec::new());
        self.recipes.push(Recipe { iface, line, mtu, mac, port, netns, host_addresses });
    }

    /// By what the interface is opened again when it was lost. A capture would begin anew.
    pub(crate) fn opened_by(&mut self, iface: Iface, port: PortSpec, fault: Option<FaultSpec>) {
        if let (Some(recipe), PortSpec::Tap(_) | PortSpec::Xdp(_) | PortSpec::Dpdk(_)) =
            (self.recipe_mut(iface), &port)
        {
            recipe.netns = netns_of(&port);
            recipe.port = Some((port, fault));
        }
    }

    /// The other end of the interface has this address.
    pub(crate) fn host_address(&mut self, iface: Iface, address: Cidr) {
        if let Some(recipe) = self.recipe_mut(iface) {
            recipe.host_addresses.push(address);
        }
    }

    fn recipe_mut(&mut self, iface: Iface) -> Option<&mut Recipe> {
        self.recipes.iter_mut().find(|recipe| recipe.iface == iface)
    }

    /// Somebody wants the interface to be up, or down.
    pub(crate) fn want_up(&mut self, iface: Iface, up: bool) {
        self.wanted_up.retain(|of| *of != iface);
        if up {
            self.wanted_up.push(iface);
        }
    }

    pub(crate) fn is_wanted_up(&self, iface: Iface) -> bool {
        self.wanted_up.contains(&iface)
    }

    /// The interface is lost from now on.
    pub(crate) fn lose(&mut self, lost: Lost) {
        match self.losses.iter_mut().find(|(of, _)| *of == lost.iface) {
            Some((_, count)) => *count += 1,
            None => self.losses.push((lost.iface, 1)),
        }
        self.lost.push(lost);
    }

    pub(crate) fn is_lost(&self, iface: Iface) -> bool {
        self.find_lost(iface).is_some()
    }

    pub(crate) fn find_lost(&self, iface: Iface) -> Option<&Lost> {
        self.lost.iter().find(|lost| lost.iface == iface)
    }

    pub(crate) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// It could not be opened again, for this reason.
    pub(crate) fn refused(&mut self, iface: Iface, why: String) {
        if let Some(lost) = self.lost.iter_mut().find(|lost| lost.iface == iface) {
            lost.refused = Some(why);
        }
    }

    /// It is there again, with another Ethernet address of its own if one is said.
    pub(crate) fn is_back(&mut self, iface: Iface, mac: Option<Mac>) {
        self.lost.retain(|lost| lost.iface != iface);
        if let Some(recipe) = self.recipe_mut(iface) {
            recipe.mac = mac.or(recipe.mac);
            recipe.netns = recipe.port.as_ref().and_then(|(port, _)| netns_of(port));
        }
    }

    /// Interfaces whose TAP interface is in a network namespace that has its name no more, since
    /// another one has it: ours is kept alive by nothing but our descriptor, and nobody gets there.
    pub(crate) fn elsewhere(&self) -> Vec<Iface> {
        let is_elsewhere = |recipe: &&Recipe| {
            let now = recipe.port.as_ref().and_then(|(port, _)| netns_of(port));
            recipe.netns.is_some() && now.is_some() && now != recipe.netns
        };
        let found = self.recipes.iter().filter(|recipe| !self.is_lost(recipe.iface));
        found.filter(is_elsewhere).map(|recipe| recipe.iface).collect()
    }

    /// How often the interface was lost.
    pub(crate) fn losses(&self, iface: Iface) -> u64 {
        self.losses.iter().find(|(of, _)| *of == iface).map_or(0, |(_, count)| *count)
    }

    /// The interface is gone; its number may be given to another.
    pub(crate) fn forget(&mut self, iface: Iface) {
        self.recipes.retain(|recipe| recipe.iface != iface);
        self.modes.retain(|(of, ..)| *of != iface);
        self.wanted_up.retain(|of| *of != iface);
        self.lost.retain(|lost| lost.iface != iface);
        self.losses.retain(|(of, _)| *of != iface);
    }

    /// How workers wait for its packets was said. What was said of all queues goes with all that
    /// was said before.
    pub(crate) fn mode(&mut self, iface: Iface, queue: Option<u16>, mode: &'static str) {
        self.modes.retain(|(of, other, _)| *of != iface || queue.is_some() && *other != queue);
        self.modes.push((iface, queue, mode));
    }

    pub(crate) fn recipe(&self, iface: Iface) -> Option<&Recipe> {
        self.recipes.iter().find(|recipe| recipe.iface == iface)
    }

    pub(crate) fn modes(&self, iface: Iface) -> impl Iterator<Item = (Option<u16>, &'static str)> {
        self.modes
            .iter()
            .filter(move |(of, ..)| *of == iface)
            .map(|(_, queue, mode)| (*queue, *mode))
    }
}

fn netns_of(port: &PortSpec) -> Option<NetnsId> {
    match port {
        PortSpec::Tap(tap) => tap.netns.as_deref().and_then(NetnsId::of),
        _ => None,
    }
}

/// The Ethernet address of an interface.
pub(crate) fn mac_of(info: &InterfaceInfo) -> Option<Mac> {
    match info.link {
        Link::Ethernet(mac) => Some(mac),
        Link::Raw | Link::Loopback => None,
    }
}

/// A text as one word of the command language.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '#' | '\\' | '?');
    // `--json` in quotes is a word like others.
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
