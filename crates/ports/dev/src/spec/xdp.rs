//! `xdp:INTERFACE[:QUEUES]`.

use std::fmt;
use std::ops::RangeInclusive;

use super::{MAX_QUEUES, MTU_RANGE, SpecError, Word, check_name};

/// An interface of the kernel's, through AF_XDP sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XdpSpec {
    /// The interface's name.
    pub name: String,
    /// The queues to take; None takes all of them. What comes on others is the kernel's.
    pub queues: Option<RangeInclusive<u16>>,
    /// The MTU to use, at most the interface's; None takes that.
    pub mtu: Option<usize>,
    /// Whether checksums are left to the other side where that is possible.
    pub offload: bool,
    /// Who hands the frames over.
    pub mode: XdpMode,
}

/// Who hands frames over, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// What is fastest of the others.
    Auto,
    /// The driver, without a copy where it can do so.
    Native,
    /// The driver, with a copy.
    Copy,
    /// The kernel, whatever the driver.
    Generic,
}

impl XdpMode {
    const NAMED: [(&str, XdpMode); 3] =
        [("native", XdpMode::Native), ("copy", XdpMode::Copy), ("generic", XdpMode::Generic)];
}

impl XdpSpec {
    /// All queues of an interface, everything else left to it.
    pub fn new(name: impl Into<String>) -> XdpSpec {
        XdpSpec { name: name.into(), queues: None, mtu: None, offload: true, mode: XdpMode::Auto }
    }
}

impl fmt::Display for XdpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xdp:{}", self.name)?;
        if let Some(queues) = &self.queues {
            write!(f, ":{}", queues.start())?;
            if queues.end() != queues.start() {
                write!(f, "-{}", queues.end())?;
            }
        }
        if let Some(mtu) = self.mtu {
            write!(f, ",mtu={mtu}")?;
        }
        if !self.offload {
            f.write_str(",offload=off")?;
        }
        match XdpMode::NAMED.iter().find(|(_, mode)| *mode == self.mode) {
            Some((name, _)) => write!(f, ",mode={name}"),
            None => Ok(()),
        }
    }
}

const NEEDS: &str = "xdp needs an interface, such as xdp:eth1, or xdp:eth1:0-3 for some of its \
    queues";

pub(super) fn parse(text: &str) -> Result<XdpSpec, SpecError> {
    let Some(rest) = text.strip_prefix("xdp:") else {
        return Err(SpecError::new(text, 0..3, NEEDS));
    };
    let start = text.len() - rest.len();
    let end = rest.find(',').map_or(text.len(), |comma| start + comma);
    let place = &text[start..end];
    let (name, queues) = match place.split_once(':') {
        Some((name, queues)) => (name, Some(queues)),
        None => (place, None),
    };
    if name.is_empty() {
        return Err(SpecError::new(text, 0..end, NEEDS));
    }
    check_name(name).map_err(|message| SpecError::new(text, start..start + name.len(), message))?;
    let mut spec = XdpSpec::new(name);
    if let Some(queues) = queues {
        spec.queues = Some(parse_queues(queues).ok_or_else(|| {
            let at = start + name.len() + 1..end;
            let last = MAX_QUEUES - 1;
            let message = format!("queues are one number or two, such as 0 or 0-3, up to {last}");
            SpecError::new(text, at, message)
        })?);
    }
    for word in Word::list(text, (end + 1).min(text.len())) {
        match word.key {
            "mtu" => spec.mtu = Some(word.number(MTU_RANGE, "1500")?),
            "offload" => {
                spec.offload = match word.need_value("off")? {
                    "on" => true,
                    "off" => false,
                    _ => return Err(word.wrong_value("offload is on or off")),
                }
            }
            "mode" => {
                let value = word.need_value("generic")?;
                let named = XdpMode::NAMED.iter().find(|(name, _)| *name == value);
                spec.mode = named.map(|(_, mode)| *mode).ok_or_else(|| {
                    word.wrong_value("mode is native, copy or generic; without it, the fastest")
                })?;
            }
            _ => {
                return Err(word.wrong_key(
                    "unknown option; there are mtu=BYTES, offload=on|off and \
                     mode=native|copy|generic",
                ));
            }
        }
    }
    Ok(spec)
}

fn parse_queues(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|&n| usize::from(n) < MAX_QUEUES);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    (first <= last).then_some(first..=last)
}
