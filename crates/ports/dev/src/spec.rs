//! How a port is named: `KIND:NAME[,option=value]…`, the same on every command line and in every
//! script.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Mac;

pub mod xdp;

pub use xdp::{XdpMode, XdpSpec};

/// A port that somebody named.
///
/// ```
/// use clearway_dev::PortSpec;
/// let PortSpec::Tap(tap) = "tap:tap001,queues=2,mtu=9000".parse().unwrap() else { panic!() };
/// assert_eq!((tap.name.as_str(), tap.queues, tap.mtu), ("tap001", 2, Some(9000)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortSpec {
    /// `tap:NAME` or `tun:NAME`: a Linux TUN/TAP interface.
    Tap(TapSpec),
    /// `loop`: the stack's link to itself.
    Loop,
    /// `pcap:FILE`: a capture file played back.
    Pcap(PathBuf),
    /// `dpdk:DEVICE`: a device that a driver of DPDK drives.
    Dpdk(DpdkSpec),
    /// `xdp:INTERFACE`: an interface of the kernel's, through AF_XDP sockets.
    Xdp(XdpSpec),
}

/// A device that a driver of DPDK drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DpdkSpec {
    /// A virtual device, such as `net_memif0`, or the address of a PCI device, such as
    /// `0000:17:00.0`.
    pub device: String,
    /// What the driver is told, word for word.
    pub args: String,
    /// The MTU to set; None takes 1,500 bytes, or what the device carries when that is less.
    pub mtu: Option<usize>,
    /// Our Ethernet address; None takes the device's, or derives a stable one where the device has
    /// none of its own.
    pub mac: Option<Mac>,
    /// Whether checksums and segmentation are left to the device where it can do them.
    pub offload: bool,
}

impl DpdkSpec {
    /// A device with its driver's arguments, everything else left to the driver.
    pub fn new(device: impl Into<String>, args: impl Into<String>) -> DpdkSpec {
        DpdkSpec { device: device.into(), args: args.into(), mtu: None, mac: None, offload: true }
    }

    /// Whether the device is named by a PCI address.
    pub fn is_pci(&self) -> bool {
        is_pci_address(&self.device)
    }

    /// The value of a word that goes to the driver.
    pub fn arg(&self, key: &str) -> Option<&str> {
        let mut words = self.args.split(',').filter_map(|word| word.split_once('='));
        words.find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// `17:00.0` or `0000:17:00.0`, in hexadecimal: domain, bus, device, function.
fn is_pci_address(text: &str) -> bool {
    let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some((front, function)) = text.rsplit_once('.') else { return false };
    let mut parts = front.rsplit(':');
    let (device, bus, domain) = (parts.next(), parts.next(), parts.next());
    hex(function, 1..=1)
        && device.is_some_and(|part| hex(part, 2..=2))
        && bus.is_some_and(|part| hex(part, 2..=2))
        && domain.is_none_or(|part| hex(part, 4..=8))
        && parts.next().is_none()
}

/// A Linux TUN/TAP interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapSpec {
    /// The interface's name.
    pub name: String,
    /// Whether it carries Ethernet frames or bare IP packets.
    pub mode: TapMode,
    /// How many queues to open, for as many threads.
    pub queues: u16,
    /// The MTU to use and, when we may, to set on the interface; None takes what the interface has.
    pub mtu: Option<usize>,
    /// Our Ethernet address; None derives a stable one from the name.
    pub mac: Option<Mac>,
    /// Whether checksums and segmentation are left to each other's side of the interface.
    pub offload: bool,
    /// The network namespace of Linux that the interface is in: a name below /run/netns or a path;
    /// None is our own.
    pub netns: Option<String>,
}

/// What a TUN/TAP interface carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapMode {
    /// Ethernet frames.
    Tap,
    /// Bare IP packets.
    Tun,
}

impl TapSpec {
    /// One queue, everything else left to the interface.
    pub fn new(mode: TapMode, name: impl Into<String>) -> TapSpec {
        TapSpec {
            name: name.into(),
            mode,
            queues: 1,
            mtu: None,
            mac: None,
            offload: true,
            netns: None,
        }
    }
}

impl fmt::Display for TapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.mode == TapMode::Tap { "tap:" } else { "tun:" })?;
        f.write_str(&self.name)?;
        if self.queues != 1 {
            write!(f, ",queues={}", self.queues)?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, ",mtu={mtu}")?;
        }
        if let Some(mac) = self.mac {
            write!(f, ",mac={mac}")?;
        }
        if !self.offload {
            f.write_str(",offload=off")?;
        }
        if let Some(netns) = &self.netns {
            write!(f, ",netns={netns}")?;
        }
        Ok(())
    }
}

impl fmt::Display for DpdkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpdk:{}", self.device)?;
        if !self.args.is_empty() {
            write!(f, ",{}", self.args)?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, ",mtu={mtu}")?;
        }
        if let Some(mac) = self.mac {
            write!(f, ",mac={mac}")?;
        }
        if !self.offload {
            f.write_str(",offload=off")?;
        }
        Ok(())
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortSpec::Tap(tap) => tap.fmt(f),
            PortSpec::Loop => f.write_str("loop"),
            PortSpec::Pcap(path) => write!(f, "pcap:{}", path.display()),
            PortSpec::Dpdk(dpdk) => dpdk.fmt(f),
            PortSpec::Xdp(xdp) => xdp.fmt(f),
        }
    }
}

/// A text that is no specification, with the word that is wrong in it. Printed, it underlines that
/// word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    text: String,
    at: Range<usize>,
    message: String,
}

impl SpecError {
    pub(crate) fn new(text: &str, at: Range<usize>, message: impl Into<String>) -> SpecError {
        SpecError { text: text.into(), at, message: message.into() }
    }

    /// Where the wrong word stands in the text, in bytes.
    pub fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    /// What is wrong with it.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Columns are characters, not bytes, so that the marks stand under the word in any script.
        let column = self.text[..self.at.start].chars().count();
        let width = self.text[self.at.clone()].chars().count().max(1);
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {:column$}{:^<width$}", "", "")
    }
}

impl std::error::Error for SpecError {}

/// One `key=value` of a comma-separated list, with the places of both in the whole text.
pub(crate) struct Word<'a> {
    text: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a str>,
    start: usize,
}

impl<'a> Word<'a> {
    /// The words of `text[from..]`; none when nothing is there.
    pub(crate) fn list(text: &'a str, from: usize) -> impl Iterator<Item = Word<'a>> {
        let mut start = from;
        let pieces = text[from..].split(',').filter(move |_| from < text.len());
        pieces.map(move |piece| {
            let (key, value) = match piece.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (piece, None),
            };
            let word = Word { text, key, value, start };
            start += piece.len() + 1;
            word
        })
    }

    /// The word as it was written.
    fn text_of(&self) -> &'a str {
        let len = self.key.len() + self.value.map_or(0, |value| value.len() + 1);
        &self.text[self.start..self.start + len]
    }

    /// An error that points at the whole word.
    pub(crate) fn wrong(&self, message: impl Into<String>) -> SpecError {
        let len = self.key.len() + self.value.map_or(0, |value| value.len() + 1);
        SpecError::new(self.text, self.start..self.start + len, message)
    }

    /// An error that points at the key.
    pub(crate) fn wrong_key(&self, message: impl Into<String>) -> SpecError {
        SpecError::new(self.text, self.start..self.start + self.key.len(), message)
    }

    /// An error that points at the value.
    pub(crate) fn wrong_value(&self, message: impl Into<String>) -> SpecError {
        match self.value {
            Some(value) => {
                let start = self.start + self.key.len() + 1;
                SpecError::new(self.text, start..start + value.len(), message)
            }
            None => self.wrong(message),
        }
    }

    /// The value, which has to be there; `example` shows one.
    pub(crate) fn need_value(&self, example: &str) -> Result<&'a str, SpecError> {
        match self.value {
            Some(value) if !value.is_empty() => Ok(value),
            _ => {
                Err(self
                    .wrong(format!("{} needs a value, such as {}={example}", self.key, self.key)))
            }
        }
    }

    /// The value as a whole number within `range`.
    pub(crate) fn number(
        &self,
        range: std::ops::RangeInclusive<usize>,
        example: &str,
    ) -> Result<usize, SpecError> {
        let value = self.need_value(example)?;
        match value.parse::<usize>() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(self.wrong_value(format!(
                "{} is a whole number from {} to {}",
                self.key,
                range.start(),
                range.end()
            ))),
        }
    }
}

/// Queues that a Linux TUN/TAP interface has at most.
const MAX_QUEUES: usize = 256;

/// The smallest IPv4 MTU (RFC 791 3.2) and the largest that a TAP interface takes: 65,535 less its
/// Ethernet header.
const MTU_RANGE: std::ops::RangeInclusive<usize> = 68..=65_521;

/// Bytes of an interface name at most: IFNAMSIZ is 16 with the closing zero.
const MAX_NAME: usize = 15;

const KINDS: &str = "tap:NAME, tun:NAME, loop, pcap:FILE, dpdk:DEVICE or xdp:INTERFACE";

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<PortSpec, SpecError> {
        let kind = &text[..text.find([':', ',']).unwrap_or(text.len())];
        let after_kind = kind.len() + 1;
        match kind {
            "tap" => parse_tap(text, TapMode::Tap).map(PortSpec::Tap),
            "tun" => parse_tap(text, TapMode::Tun).map(PortSpec::Tap),
            "loop" if text.len() == kind.len() => Ok(PortSpec::Loop),
            "loop" => Err(SpecError::new(
                text,
                kind.len()..text.len(),
                "loop takes no name and no options",
            )),
            // A file name may hold commas and colons, so everything after the first colon is the
            // file.
            "pcap" => match text.get(after_kind..) {
                Some(file) if !file.is_empty() => Ok(PortSpec::Pcap(PathBuf::from(file))),
                _ => Err(SpecError::new(
                    text,
                    0..text.len(),
                    "pcap needs a file, such as pcap:in.pcap",
                )),
            },
            "dpdk" => parse_dpdk(text).map(PortSpec::Dpdk),
            "xdp" => xdp::parse(text).map(PortSpec::Xdp),
            "" => Err(SpecError::new(text, 0..0, format!("a port is named {KINDS}"))),
            _ => Err(SpecError::new(
                text,
                0..kind.len(),
                format!("unknown kind of port {kind:?}; there are {KINDS}"),
            )),
        }
    }
}

fn parse_tap(text: &str, mode: TapMode) -> Result<TapSpec, SpecError> {
    // Both kinds have three letters.
    let name_start = 4.min(text.len());
    let name_end = text[name_start..].find(',').map_or(text.len(), |comma| name_start + comma);
    let name = &text[name_start..name_end];
    if !text[3..].starts_with(':') || name.is_empty() {
        let (kind, end) = (&text[..3], if text[3..].starts_with(':') { name_end } else { 3 });
        return Err(SpecError::new(
            text,
            0..end,
            format!("{kind} needs an interface name, such as {kind}:{kind}001"),
        ));
    }
    check_name(name).map_err(|message| SpecError::new(text, name_start..name_end, message))?;
    let mut spec = TapSpec::new(mode, name);
    for word in Word::list(text, (name_end + 1).min(text.len())) {
        match word.key {
            "queues" => spec.queues = word.number(1..=MAX_QUEUES, "2")? as u16,
            "mtu" => spec.mtu = Some(word.number(MTU_RANGE, "1500")?),
            "mac" if mode == TapMode::Tun => {
                return Err(word.wrong("a tun port has no Ethernet, so it takes no mac"));
            }
            "mac" => spec.mac = Some(parse_mac(&word)?),
            "offload" => {
                spec.offload = match word.need_value("off")? {
                    "on" => true,
                    "off" => false,
                    _ => return Err(word.wrong_value("offload is on or off")),
                }
            }
            "netns" => {
                let value = word.need_value("blue")?;
                let is_sound = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
                let is_path = value.starts_with('/');
                let is_name = !value.contains('/') && !matches!(value, "." | "..");
                if !value.chars().all(is_sound) || !(is_path || is_name) {
                    return Err(word.wrong_value(
                        "a network namespace is a name as `ip netns` lists it, or a path",
                    ));
                }
                spec.netns = Some(value.to_owned());
            }
            _ => {
                return Err(word.wrong_key(
                    "unknown option; there are queues=N, mtu=BYTES, mac=ADDRESS, offload=on|off \
                     and netns=NAME",
                ));
            }
        }
    }
    Ok(spec)
}

/// The words after the device are its driver's, but for the few that are the same for every device.
fn parse_dpdk(text: &str) -> Result<DpdkSpec, SpecError> {
    let Some(rest) = text.strip_prefix("dpdk:") else {
        return Err(SpecError::new(text, 0..4, DPDK_NEEDS));
    };
    let device_start = text.len() - rest.len();
    let device_end = rest.find(',').map_or(text.len(), |comma| device_start + comma);
    let device = &text[device_start..device_end];
    if device.is_empty() {
        return Err(SpecError::new(text, 0..device_end, DPDK_NEEDS));
    }
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if !device.chars().all(sound) || device.len() > MAX_DEVICE {
        return Err(SpecError::new(text, device_start..device_end, DPDK_NEEDS));
    }
    let mut spec = DpdkSpec::new(device, "");
    let mut args: Vec<&str> = Vec::new();
    for word in Word::list(text, (device_end + 1).min(text.len())) {
        let is_mac = |value: &str| value.parse::<Mac>().is_ok();
        match word.key {
            "mtu" => spec.mtu = Some(word.number(MTU_RANGE, "9000")?),
            // One driver has a word of its own by this name that takes no address.
            "mac" if word.value.is_some_and(is_mac) => spec.mac = Some(parse_mac(&word)?),
            "offload" => {
                spec.offload = match word.need_value("off")? {
                    "on" => true,
                    "off" => false,
                    _ => return Err(word.wrong_value("offload is on or off")),
                }
            }
            "" => return Err(word.wrong("there is a comma with nothing behind it")),
            _ => args.push(word.text_of()),
        }
    }
    spec.args = args.join(",");
    Ok(spec)
}

const DPDK_NEEDS: &str = "dpdk needs a device: a virtual one with its driver's arguments, such as \
    dpdk:net_memif0,role=server, or the address of a \
    PCI device, such as dpdk:0000:17:00.0";

/// Bytes of a device's name at most: RTE_ETH_NAME_MAX_LEN is 64 with the closing zero.
const MAX_DEVICE: usize = 63;

/// What the kernel asks of an interface name, so that the user hears it from us in words.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.len() > MAX_NAME {
        return Err("an interface name has at most 15 bytes");
    }
    if name == "."
        || name == ".."
        || name
            .contains(|c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c == '\0')
    {
        return Err("an interface name has no slash, colon, percent sign or space");
    }
    Ok(())
}

fn parse_mac(word: &Word<'_>) -> Result<Mac, SpecError> {
    let mac: Mac = word
        .need_value("02:00:00:00:00:01")?
        .parse()
        .map_err(|error| word.wrong_value(format!("{error}")))?;
    if mac.is_multicast() || mac == Mac::ZERO {
        return Err(word.wrong_value(
            "this is a group's address or none; one device's own has an even \
                first byte, such as 02",
        ));
    }
    Ok(mac)
}

#[cfg(test)]
mod tests;
