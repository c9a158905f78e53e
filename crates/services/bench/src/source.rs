//! Where connections come from: ranges of addresses, and every port of each.

use std::fmt;
use std::str::FromStr;

use clearway_wire::{Addr, Cidr, Endpoint};

/// Addresses that one range may name at most: what one stack has places for.
pub const MAX_ADDRESSES: u32 = 16_384;

/// The ports that a source address has for a client: all but the well-known ones.
const PORTS: (u16, u16) = (1_024, 65_535);

/// One address or several that follow each other, with the prefix length of their link, and the
/// port they stand on: `10.0.0.1/24`, `10.0.0.1-10.0.3.255/8@1`, `fd00::1-fd00::ff/64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    first: Addr,
    count: u32,
    prefix_len: u8,
    /// The number of the port on the command line.
    pub port: u16,
}

impl AddressRange {
    /// How many addresses.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Every address with its prefix length, in order.
    pub fn cidrs(&self) -> impl Iterator<Item = Cidr> + use<> {
        let (first, prefix_len) = (self.first, self.prefix_len);
        (0..self.count).filter_map(move |step| Cidr::new(plus(first, step), prefix_len))
    }
}

fn number(addr: Addr) -> u128 {
    if addr.is_v4() {
        u32::from_be_bytes(addr.v4_octets()).into()
    } else {
        u128::from_be_bytes(*addr.octets())
    }
}

fn plus(addr: Addr, step: u32) -> Addr {
    let sum = number(addr) + u128::from(step);
    if addr.is_v4() { Addr::v4((sum as u32).to_be_bytes()) } else { Addr::v6(sum.to_be_bytes()) }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<AddressRange, String> {
        let (range, port) = text.split_once('@').unwrap_or((text, "0"));
        let port = port.parse().map_err(|_| format!("`{port}` is no number of a port"))?;
        let (range, prefix_len) = match range.split_once('/') {
            Some((range, len)) => (range, Some(len)),
            None => (range, None),
        };
        let address =
            |text: &str| text.parse::<Addr>().map_err(|_| format!("`{text}` is no address"));
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (address(first)?, address(last)?),
            None => (address(range)?, address(range)?),
        };
        if first.is_v4() != last.is_v4() {
            return Err(format!("`{range}` begins with one family and ends with the other"));
        }
        let count = number(last)
            .checked_sub(number(first))
            .ok_or_else(|| format!("`{range}` ends before it begins"))?;
        if count >= u128::from(MAX_ADDRESSES) {
            return Err(format!("`{range}` has more than {MAX_ADDRESSES} addresses"));
        }
        let longest = if first.is_v4() { 32 } else { 128 };
        let prefix_len = match prefix_len {
            None => longest,
            Some(text) => {
                let len = text.parse::<u8>().ok().filter(|&len| len <= longest);
                len.ok_or_else(|| {
                    format!("`/{text}` is no prefix length: write a number from 0 to {longest}")
                })?
            }
        };
        Ok(AddressRange { first, count: count as u32 + 1, prefix_len, port })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        if self.count > 1 {
            write!(f, "-{}", plus(self.first, self.count - 1))?;
        }
        write!(f, "/{}", self.prefix_len)
    }
}

/// Hands out the endpoints that one core's connections come from: no two of the same at a time, as
/// long as there are enough, and none that another core hands out. A core's ports are those whose
/// number leaves its own when divided by the number of cores, so that an answer that comes to
/// another core finds its way ([`clearway_proto::Stack::share_ports`]).
#[derive(Clone, Debug)]
pub struct Sources {
    addresses: Vec<Addr>,
    next: u64,
    all: u64,
    first_port: u16,
    step: u16,
}

impl Sources {
    /// The endpoints of core `core` of `cores`, from the `seed`-th on: a client that was there a
    /// moment ago, whose connections the server still remembers, began elsewhere. None without
    /// addresses.
    pub fn new(addresses: Vec<Addr>, core: usize, cores: usize, seed: u64) -> Option<Sources> {
        let step = cores.max(1) as u16;
        let first_port = PORTS.0 + (core as u16 + step - PORTS.0 % step) % step;
        let all = addresses.len() as u64 * (u64::from(PORTS.1 - first_port) / u64::from(step) + 1);
        if all == 0 {
            return None;
        }
        Some(Sources { addresses, next: seed % all, all, first_port, step })
    }

    /// The next one. It differs from those before in its address as long as there are more.
    pub fn next_endpoint(&mut self) -> Endpoint {
        let at = self.next;
        self.next = (self.next + 1) % self.all;
        let count = self.addresses.len() as u64;
        // Below the last port, because `all` counts no more.
        let port = self.first_port + (at / count) as u16 * self.step;
        Endpoint::new(self.addresses[(at % count) as usize], port)
    }
}

/// Connections to one server that so many source addresses allow.
pub fn capacity(addresses: usize) -> u64 {
    addresses as u64 * (u64::from(PORTS.1 - PORTS.0) + 1)
}

#[cfg(test)]
mod tests;
