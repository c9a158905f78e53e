//! What commands made that nobody but them can tell again.

use clearway_pkt::Iface;
use clearway_proto::{InterfaceInfo, Link};
use clearway_wire::Mac;

/// How an interface came to be.
pub(crate) struct Recipe {
    iface: Iface,
    /// The command that makes it again.
    pub(crate) line: String,
    /// What it had then.
    pub(crate) mtu: u32,
    pub(crate) mac: Option<Mac>,
}

/// Everything of that kind.
#[derive(Default)]
pub(crate) struct Made {
    recipes: Vec<Recipe>,
    /// How workers wait for an interface's packets, by queue or for all, in the order in which it
    /// was said.
    modes: Vec<(Iface, Option<u16>, &'static str)>,
}

impl Made {
    /// An interface was made by this command.
    pub(crate) fn interface(&mut self, iface: Iface, line: String, mtu: u32, mac: Option<Mac>) {
        self.forget(iface);
        self.recipes.push(Recipe { iface, line, mtu, mac });
    }

    /// The interface is gone; its number may be given to another.
    pub(crate) fn forget(&mut self, iface: Iface) {
        self.recipes.retain(|recipe| recipe.iface != iface);
        self.modes.retain(|(of, ..)| *of != iface);
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
