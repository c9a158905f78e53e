//! How much is to be offered: a share of a link, frames per second, or bits per second.

use std::fmt;
use std::str::FromStr;

/// Bytes that a frame takes on an Ethernet beyond those that a port sees: 4 of the check sequence,
/// 8 of preamble and start, 12 of gap (IEEE 802.3 3.1.1, 4.4.2).
pub const WIRE_EXTRA: u64 = 24;

/// An offered load.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Rate {
    /// As much as the port takes.
    #[default]
    Max,
    /// This share of the link's line rate, in percent.
    Percent(f64),
    /// Frames per second.
    Frames(f64),
    /// Bits per second.
    Bits(f64),
}

/// A number of frames per second as a fraction, so that nothing is lost by rounding however long it
/// runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramesPerSecond {
    /// So many frames …
    pub frames: u64,
    /// … in so many seconds; never 0.
    pub seconds: u64,
}

impl Rate {
    /// How many frames of `size` bytes make up this rate on a link of `link_bits` per second; None
    /// when it is without bound. `extra` bytes are counted with each frame in a rate of bits; a
    /// share of the line always counts what the line carries.
    pub fn frames(&self, size: usize, link_bits: u64, extra: u64) -> Option<FramesPerSecond> {
        // A thousandth of a frame or bit is finer than anybody can ask for and leaves room up to
        // 10^16 of them.
        let milli = |number: f64| (number * 1e3).round().clamp(0.0, 1e19) as u64;
        let bits_of = |extra: u64| (size as u64 + extra) * 8 * 1_000;
        match *self {
            Rate::Max => None,
            Rate::Percent(share) => {
                let bits = link_bits as f64 / 100.0 * share;
                Some(FramesPerSecond { frames: milli(bits), seconds: bits_of(WIRE_EXTRA) })
            }
            Rate::Frames(frames) => Some(FramesPerSecond { frames: milli(frames), seconds: 1_000 }),
            Rate::Bits(bits) => {
                Some(FramesPerSecond { frames: milli(bits), seconds: bits_of(extra) })
            }
        }
    }
}

impl FramesPerSecond {
    /// As one number.
    pub fn as_f64(&self) -> f64 {
        self.frames as f64 / self.seconds as f64
    }

    /// An equal part of it for each of `parts`.
    pub fn split(self, parts: usize) -> FramesPerSecond {
        FramesPerSecond { seconds: self.seconds * parts.max(1) as u64, ..self }
    }
}

/// A text that is no rate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no rate: write a share of the line such as 10%, frames such as 1.5Mpps, bits such as \
     100Mbit/s, or max"
)]
pub struct RateError(String);

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let wrong = || RateError(text.into());
        if text == "max" {
            return Ok(Rate::Max);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if number <= 0.0 {
            return Err(wrong());
        }
        let unit = unit.trim_start();
        if unit == "%" {
            return if number <= 100.0 { Ok(Rate::Percent(number)) } else { Err(wrong()) };
        }
        let (scale, unit) = match unit.chars().next() {
            Some('k' | 'K') => (1e3, &unit[1..]),
            Some('M' | 'm') => (1e6, &unit[1..]),
            Some('G' | 'g') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        let number = number * scale;
        if number > 1e15 {
            return Err(wrong());
        }
        match unit {
            "pps" => Ok(Rate::Frames(number)),
            "bit" | "bit/s" | "bps" => Ok(Rate::Bits(number)),
            // 100M is 100 Mbit/s, as with tc and iperf3; a number without any unit could mean
            // anything.
            "" if scale > 1.0 => Ok(Rate::Bits(number)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match *self {
            Rate::Max => return f.write_str("max"),
            Rate::Percent(share) => return write!(f, "{share}%"),
            Rate::Frames(number) => (number, "pps"),
            Rate::Bits(number) => (number, "bit/s"),
        };
        match number {
            n if n >= 1e9 => write!(f, "{}G{unit}", n / 1e9),
            n if n >= 1e6 => write!(f, "{}M{unit}", n / 1e6),
            n if n >= 1e3 => write!(f, "{}k{unit}", n / 1e3),
            n => write!(f, "{n}{unit}"),
        }
    }
}

#[cfg(test)]
mod tests;
