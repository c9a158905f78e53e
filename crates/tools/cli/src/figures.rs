//! Numbers as people and machines read them.

use std::io::{self, Write as _};
use std::str::FromStr;

use clearway_engine::CoreReport;
use serde::Serialize;

use crate::out;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A JSON object per line.
    Json,
    /// Text, with a line per second.
    Live,
    /// Text, without: nobody watches.
    Quiet,
}

impl Form {
    /// JSON when asked for; live figures on a terminal only.
    pub(crate) fn choose(json: bool) -> Form {
        match (json, out::stdout().is_terminal()) {
            (true, _) => Form::Json,
            (false, true) => Form::Live,
            (false, false) => Form::Quiet,
        }
    }
}

/// Prints a line.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = out::stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints a JSON object on a line.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(&serde_json::to_string(value)?)?)
}

/// What all cores together did below the application.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Below {
    /// Frames in, bytes in, frames out, bytes out at the ports.
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// Segments sent again.
    pub(crate) retransmits: u64,
    /// Packets lost at the ports or refused by the stack, for whatever reason.
    pub(crate) drops: u64,
    /// Turns of the loop, and how often it slept.
    pub(crate) turns: u64,
    pub(crate) sleeps: u64,
}

impl Below {
    /// The sum over all cores.
    pub(crate) fn of<R>(reports: &[CoreReport<R>]) -> Below {
        let mut sum = Below::default();
        for report in reports {
            sum.rx_packets += report.dev.rx_packets;
            sum.rx_bytes += report.dev.rx_bytes;
            sum.tx_packets += report.dev.tx_packets;
            sum.tx_bytes += report.dev.tx_bytes;
            sum.retransmits += report.stack.tcp.retransmitted_segs;
            sum.drops += report.dev.rx_dropped_total()
                + report.dev.tx_dropped_total()
                + report.stack.drops_total();
            sum.turns += report.turns;
            sum.sleeps += report.sleeps;
        }
        sum
    }

    /// The reasons behind [`Below::drops`], with their counts; those that never happened are left
    /// out.
    pub(crate) fn reasons<R>(
        reports: &[CoreReport<R>],
    ) -> serde_json::Map<String, serde_json::Value> {
        let mut reasons = serde_json::Map::new();
        let mut add = |name: String, count: u64| {
            if count > 0 {
                let sum =
                    reasons.get(&name).and_then(serde_json::Value::as_u64).unwrap_or(0) + count;
                reasons.insert(name, sum.into());
            }
        };
        for report in reports {
            for why in clearway_dev::RxDrop::ALL {
                add(format!("port-rx-{}", why.name()), report.dev.rx_dropped(*why));
            }
            for why in clearway_dev::TxDrop::ALL {
                add(format!("port-tx-{}", why.name()), report.dev.tx_dropped(*why));
            }
            for (why, count) in report.stack.each_drop() {
                add(why.name().to_string(), count);
            }
        }
        reasons
    }
}

/// `bytes` in `seconds` as Gbit/s.
pub(crate) fn gbit(bytes: u64, seconds: f64) -> f64 {
    per_second(bytes, seconds) * 8.0 / 1e9
}

/// `count` per second; 0 for no time at all.
pub(crate) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// A number of bytes such as `64`, `16k`, `1M` or `4G` (powers of 1,024).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
            Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
            Some(b't' | b'T') => (&text[..text.len() - 1], 40),
            _ => (text, 0),
        };
        let wrong = || format!("`{text}` is no size: write bytes such as 64, 16k, 1M or 4G");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(wrong)
    }
}

/// A length of time in seconds, such as `10` or `0.5`.
pub(crate) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("`{text}` is no time: write seconds such as 10 or 0.5");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    if !(0.0..=1e9).contains(&number) {
        return Err(wrong());
    }
    Ok(std::time::Duration::from_secs_f64(number))
}

#[cfg(test)]
mod tests;
