//! The kinds of arguments: what each is called, what it must look like, and what it becomes.

use std::path::PathBuf;

use clearway_wire::{Addr, Cidr, Mac};
use zeroize::Zeroizing;

/// Several TCP or UDP ports, first and last included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

/// Which session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionName {
    /// The worker that it lives on.
    pub worker: u8,
    /// Its slot there.
    pub slot: u32,
    /// Tells it from others that had the slot before, when it is given.
    pub generation: Option<u32>,
}

/// What an argument became.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    Secret(Zeroizing<String>),
    Prefix(Cidr),
    Address(Addr),
    Mac(Mac),
    Ports(PortRange),
    Protocol(u8),
    Session(SessionName),
}

/// Declares the kinds once: variant, name in the grammar, and what it is, for help and errors.
macro_rules! kinds {
    ($( $variant:ident = $name:literal, $what:literal; )*) => {
        /// A kind of argument.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Kind {
            $( #[doc = $what] $variant, )*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[ $( Kind::$variant, )* ];

            /// Its name in the grammar, in capitals.
            pub const fn name(self) -> &'static str {
                match self { $( Kind::$variant => $name, )* }
            }

            /// What it is, in one line.
            pub const fn what(self) -> &'static str {
                match self { $( Kind::$variant => $what, )* }
            }
        }
    };
}

kinds! {
    Interface = "INTERFACE", "the name of an interface, such as loop0";
    HostInterface = "HOST-INTERFACE",
        "a name for an interface of Linux, 1 to 15 characters, such as clearway0";
    Prefix = "PREFIX", "an address with its prefix length, such as 172.16.1.1/24 or 2001:db8::1/64";
    Net = "NET", "an address or a prefix, such as 172.16.1.1, 172.16.0.0/16 or 2001:db8::/32";
    Address = "ADDRESS", "an IPv4 or IPv6 address";
    Mac = "MAC", "an Ethernet address, such as 02:00:00:00:00:01";
    Table = "TABLE", "the number of a routing table";
    Number = "N", "a number";
    Mtu = "MTU", "an MTU in bytes, 68 to 65535";
    Queue = "QUEUE", "the number of a queue, counted from 0";
    Worker = "WORKER", "the number of a worker, counted from 0";
    Pid = "PID", "the number of a process";
    Session = "SESSION",
        "the name of a session as `show session` has it, such as 0:3, or with its generation: 0:3:1";
    Namespace = "NAMESPACE",
        "the id of an application namespace, 1 to 64 letters, digits, `-`, `_` and `.`";
    Secret = "SECRET", "a secret, 1 to 256 bytes; better long";
    File = "FILE", "the path of a file";
    Ports = "PORTS", "a port or a range of ports, such as 80 or 5201-5210";
    Protocol = "PROTOCOL", "tcp, udp, icmp, icmp6 or the number of an IP protocol, 0 to 255";
    Filter = "FILTER", "a capture filter as tcpdump takes it, in quotes, such as \"tcp port 80\"";
    State = "STATE", "the state of a session as `show session verbose` has it, such as established";
    Netns = "NETNS",
        "a network namespace of Linux, by the name that `ip netns` shows or as a path";
    Port = "PORT", "what a port is, such as tap:clearway0 or xdp:eth1";
    Fault = "FAULT", "how bad the link shall be, such as loss=0.1% or delay=10ms,rate=100M";
}

/// The longest interface name; that of Linux is the shorter one.
const MAX_NAME: usize = 31;
const MAX_LINUX_NAME: usize = 15;
const MAX_NAMESPACE: usize = 64;
const MAX_SECRET: usize = 256;
const MAX_PATH: usize = 1024;
const MAX_FAULT: usize = 256;
const MAX_FILTER: usize = 1024;

/// The smallest MTU of IPv4 (RFC 791 3.2), and the largest packet.
const MTUS: (u64, u64) = (68, 65_535);

impl Kind {
    /// The kind of that name.
    pub(crate) fn of(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Whether such an argument can be told from any word by its look.
    pub(crate) fn recognisable(self) -> bool {
        !matches!(
            self,
            Kind::Interface
                | Kind::HostInterface
                | Kind::Namespace
                | Kind::Secret
                | Kind::File
                | Kind::Fault
                | Kind::Filter
                | Kind::Netns
                | Kind::Port
        )
    }

    /// The value of `text`, or what such an argument must be.
    pub(crate) fn check(self, text: &str) -> Result<Value, &'static str> {
        let value = match self {
            Kind::Interface => name(text, MAX_NAME).map(Value::Text),
            Kind::HostInterface => {
                name(text, MAX_LINUX_NAME).filter(|name| !name.starts_with('.')).map(Value::Text)
            }
            Kind::Namespace => namespace(text).map(Value::Text),
            Kind::Secret => bounded(text, MAX_SECRET).map(|text| Value::Secret(text.into())),
            Kind::File | Kind::Port | Kind::Netns => bounded(text, MAX_PATH).map(Value::Text),
            Kind::Fault => bounded(text, MAX_FAULT).map(Value::Text),
            Kind::Filter => bounded(text, MAX_FILTER).map(Value::Text),
            Kind::Prefix => text.parse().ok().map(Value::Prefix),
            Kind::Net => net(text).map(Value::Prefix),
            Kind::Address => text.parse().ok().map(Value::Address),
            Kind::Mac => text.parse().ok().map(Value::Mac),
            Kind::Table => number(text, 0, u64::from(u32::MAX)),
            Kind::Queue | Kind::Worker => number(text, 0, u64::from(u16::MAX)),
            Kind::Number => number(text, 0, u64::MAX),
            Kind::Pid => number(text, 1, i32::MAX as u64),
            Kind::Mtu => number(text, MTUS.0, MTUS.1),
            Kind::Ports => ports(text).map(Value::Ports),
            Kind::Protocol => protocol(text).map(Value::Protocol),
            Kind::Session => session(text).map(Value::Session),
            Kind::State => state(text).map(|state| Value::Text(state.into())),
        };
        value.ok_or(self.what())
    }
}

fn bounded(text: &str, most: usize) -> Option<String> {
    ((1..=most).contains(&text.len()) && !text.contains('\0')).then(|| text.to_owned())
}

fn name(text: &str, most: usize) -> Option<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-:@".contains(c);
    bounded(text, most).filter(|text| text.chars().all(good))
}

/// A namespace's id is also the name of its attach socket in a folder, so it is held to what is
/// harmless there.
fn namespace(text: &str) -> Option<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    bounded(text, MAX_NAMESPACE).filter(|text| text.chars().all(good) && !text.starts_with('.'))
}

fn digits(text: &str) -> Option<u64> {
    // `parse` would take a sign.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn number(text: &str, least: u64, most: u64) -> Option<Value> {
    digits(text).filter(|n| (least..=most).contains(n)).map(Value::Number)
}

fn net(text: &str) -> Option<Cidr> {
    let host = |addr: Addr| Cidr::new(addr, if addr.is_v4() { 32 } else { 128 });
    text.parse().ok().or_else(|| text.parse().ok().and_then(host))
}

fn ports(text: &str) -> Option<PortRange> {
    let port = |text: &str| digits(text).and_then(|n| u16::try_from(n).ok());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(PortRange { first, last })
}

/// What a session may be (RFC 9293 3.3.2, and what has no connection).
const STATES: [&str; 12] = [
    "CLOSED",
    "LISTEN",
    "SYN-SENT",
    "SYN-RECEIVED",
    "ESTABLISHED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
    "TIME-WAIT",
    "UNCONNECTED",
];

fn state(text: &str) -> Option<&'static str> {
    STATES.into_iter().find(|state| state.eq_ignore_ascii_case(text))
}

/// `0:3` or `0:3:1`.
fn session(text: &str) -> Option<SessionName> {
    let mut parts = text.splitn(3, ':').map(|part| digits(part).filter(|_| !part.is_empty()));
    let worker = u8::try_from(parts.next()??).ok()?;
    let slot = u32::try_from(parts.next()??).ok()?;
    let generation = match parts.next() {
        None => None,
        Some(generation) => Some(u32::try_from(generation?).ok()?),
    };
    Some(SessionName { worker, slot, generation })
}

fn protocol(text: &str) -> Option<u8> {
    // Assigned Internet Protocol Numbers, IANA.
    match text {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmp6" => Some(58),
        number => digits(number).and_then(|n| u8::try_from(n).ok()),
    }
}

impl Value {
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Value::Text(text) => Some(text.into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
