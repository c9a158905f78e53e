//! What `--so_flags` says: the addresses and the MTU, which packetdrill does not pass.

use std::time::Duration;

use clearway_script::IpVersion;
use clearway_script::backend::Net;
use clearway_script::settings::Settings;
use clearway_wire::Addr;

/// How long a packet is waited for, in seconds of the stack's time, which take none of ours.
const TIME_LIMIT: u32 = 120;
/// How much real time the other thread gets to begin a call, in milliseconds.
const GRACE: u32 = 20;
/// How much real time nobody must have come in before a blocked call moves the clock itself, in
/// milliseconds.
const ALONE: u32 = 500;

/// The flags.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flags {
    pub(crate) net: Net,
    /// Seconds that a packet is waited for.
    pub(crate) timeout: u32,
    /// Real time that the other thread gets to begin its call before the clock runs on to the next
    /// packet.
    pub(crate) grace: Duration,
    /// Real time in which nobody came in, after which a blocked call moves the clock itself.
    pub(crate) alone: Duration,
}

impl Flags {
    /// Reads `ip_version=ipv4,local=192.168.0.1,remote=192.0.2.1,mtu=1500,timeout=120,grace=20`;
    /// each may be left out.
    pub(crate) fn parse(text: &str) -> Result<Flags, String> {
        let pairs = || text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let value = |wanted: &str| {
            pairs()
                .filter_map(|pair| pair.split_once('='))
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| value)
        };
        for pair in pairs() {
            let name = pair.split_once('=').map(|(name, _)| name);
            if !name.is_some_and(|name| {
                ["ip_version", "local", "remote", "mtu", "timeout", "grace", "alone"]
                    .contains(&name)
            }) {
                return Err(format!(
                    "`{pair}` is none of ip_version=, local=, remote=, mtu=, timeout=, grace= \
                     and alone="
                ));
            }
        }
        let number = |name: &str, default: u32| match value(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| format!("{name}={value}: no number")),
        };
        let version = match value("ip_version") {
            None => IpVersion::V4,
            // packetdrill's own word for it is longer than ours.
            Some("ipv4-mapped-ipv6") => IpVersion::V4Mapped,
            Some(name) => IpVersion::of(name)
                .ok_or(format!("ip_version={name}: ipv4, ipv6 or ipv4-mapped-ipv6"))?,
        };
        let mtu = number("mtu", 1500)?;
        let least = if version == IpVersion::V6 { 1280 } else { 576 };
        if !(least..=65_535).contains(&mtu) {
            return Err(format!("mtu={mtu}: {least} to 65535"));
        }
        let mut net = Net { mtu, ..Net::new(version, &Settings::default()) };
        let v6 = net.v6();
        let address = |name: &str, default: Addr| match value(name) {
            None => Ok(default),
            Some(text) => match text.parse::<Addr>() {
                Ok(addr)
                    if addr.is_v6() == v6 && !addr.is_unspecified() && !addr.is_multicast() =>
                {
                    Ok(addr)
                }
                _ => {
                    Err(format!("{name}={text}: no address of a host in the family of the packets"))
                }
            },
        };
        (net.local, net.remote) = (address("local", net.local)?, address("remote", net.remote)?);
        let grace = Duration::from_millis(number("grace", GRACE)?.into());
        let alone = Duration::from_millis(number("alone", ALONE)?.into());
        Ok(Flags { net, timeout: number("timeout", TIME_LIMIT)?, grace, alone })
    }
}
