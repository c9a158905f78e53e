//! The faults of a link, as they are written on a command line: `loss=2%,reorder=5%,rx.delay=10ms`.

use std::fmt;
use std::str::FromStr;

use clearway_base::Duration;

use crate::spec::{SpecError, Word};

/// What happens to the frames of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Impairment {
    /// Frames that are lost, in parts per million.
    pub loss_ppm: u32,
    /// Frames that are overtaken by up to three later ones, in parts per million.
    pub reorder_ppm: u32,
    /// Frames that arrive twice, in parts per million.
    pub dup_ppm: u32,
    /// Frames that arrive with one bit turned over, in parts per million.
    pub corrupt_ppm: u32,
    /// Packets that are marked (CE) instead of lost, if they can be, in parts per million.
    pub mark_ppm: u32,
    /// How long every frame is on its way.
    pub delay: Duration,
    /// By how much longer some are, at most.
    pub jitter: Duration,
    /// How often a frame is how much longer.
    pub shape: JitterShape,
    /// Whether a frame that is sooner there may overtake those before it; without, it waits for
    /// them.
    pub overtakes: bool,
    /// Bits per second that the link carries; 0 for no limit.
    pub rate_bps: u64,
    /// With a rate or a delay: frames that wait for the link or are on their way, at most. What
    /// comes when there are as many is lost.
    pub limit: usize,
}

/// How jitter is spread between nothing and its most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum JitterShape {
    /// All values are as likely.
    #[default]
    Uniform,
    /// Close to a normal distribution about the middle: the mean of four even draws. Its standard
    /// deviation is about a seventh of the most.
    Normal,
}

/// Frames that a slow or long link holds unless told otherwise.
const DEFAULT_LIMIT: usize = 1_000;

impl Default for Impairment {
    fn default() -> Impairment {
        Impairment {
            loss_ppm: 0,
            reorder_ppm: 0,
            dup_ppm: 0,
            corrupt_ppm: 0,
            mark_ppm: 0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            shape: JitterShape::Uniform,
            overtakes: false,
            rate_bps: 0,
            limit: DEFAULT_LIMIT,
        }
    }
}

/// What happens to the frames of both directions.
///
/// A word counts for both directions, or for one when it begins with `rx.` (towards the stack) or
/// `tx.` (from it); a later word wins.
///
/// ```
/// use clearway_dev::FaultSpec;
/// let faults: FaultSpec = "loss=2%,tx.delay=10ms,rate=100M".parse().unwrap();
/// assert_eq!((faults.rx.loss_ppm, faults.rx.delay.as_millis(), faults.tx.delay.as_millis()), (20_000, 0, 10));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultSpec {
    /// Towards the stack.
    pub rx: Impairment,
    /// From the stack.
    pub tx: Impairment,
}

const WORDS: &str = "loss, reorder, dup, corrupt, mark (all in percent), delay, jitter, \
    jitter-shape, jitter-order, rate and limit, each alone or behind rx. or tx.";

impl FromStr for FaultSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FaultSpec, SpecError> {
        let mut spec = FaultSpec::default();
        for word in Word::list(text, 0) {
            if let Some(key) = word.key.strip_prefix("rx.") {
                set(&mut spec.rx, key, &word)?;
            } else if let Some(key) = word.key.strip_prefix("tx.") {
                set(&mut spec.tx, key, &word)?;
            } else {
                set(&mut spec.rx, word.key, &word)?;
                set(&mut spec.tx, word.key, &word)?;
            }
        }
        Ok(spec)
    }
}

fn set(to: &mut Impairment, key: &str, word: &Word<'_>) -> Result<(), SpecError> {
    match key {
        "loss" => to.loss_ppm = percent(word)?,
        "reorder" => to.reorder_ppm = percent(word)?,
        "dup" => to.dup_ppm = percent(word)?,
        "corrupt" => to.corrupt_ppm = percent(word)?,
        "mark" => to.mark_ppm = percent(word)?,
        "delay" => to.delay = delay(word)?,
        "jitter" => to.jitter = delay(word)?,
        "jitter-shape" => {
            to.shape = match word.need_value("normal")? {
                "uniform" => JitterShape::Uniform,
                "normal" => JitterShape::Normal,
                _ => return Err(word.wrong_value("jitter is spread uniform or normal")),
            }
        }
        "jitter-order" => {
            to.overtakes = match word.need_value("free")? {
                "kept" => false,
                "free" => true,
                _ => {
                    return Err(word.wrong_value("the order of frames with jitter is kept or free"));
                }
            }
        }
        "rate" => to.rate_bps = rate(word)?,
        "limit" => to.limit = word.number(1..=1_000_000, "100")?,
        _ => return Err(word.wrong_key(format!("unknown fault; there are {WORDS}"))),
    }
    Ok(())
}

/// A decimal number as a count of its millionths, so that no rounding of binary fractions shows.
/// None when it is no plain decimal number.
fn millionths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let part = format!("{part:0<6}").parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
}

fn percent(word: &Word<'_>) -> Result<u32, SpecError> {
    let value = word.need_value("2%")?;
    let Some(number) = value.strip_suffix('%') else {
        return Err(word.wrong_value("a share is written in percent, such as 2% or 0.1%"));
    };
    // A millionth of a percent is a hundredth of a part per million.
    match millionths(number) {
        Some(millionths) if millionths <= 100_000_000 => Ok((millionths / 100) as u32),
        _ => Err(word.wrong_value("a share is a number from 0% to 100%")),
    }
}

/// The number and the unit that follows it.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

fn delay(word: &Word<'_>) -> Result<Duration, SpecError> {
    let (number, unit) = split_unit(word.need_value("10ms")?);
    let nanos = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return Err(word.wrong_value("a delay has a unit: s, ms, us or ns, such as 10ms")),
    };
    let total = millionths(number).and_then(|n| n.checked_mul(nanos)).map(|n| n / 1_000_000);
    // Longer than any retransmission timer waits (RFC 6298 2.5), a delay is an outage.
    match total {
        Some(total) if total <= 60_000_000_000 => Ok(Duration::from_nanos(total)),
        _ => Err(word.wrong_value("a delay is a number from 0s to 60s")),
    }
}

fn rate(word: &Word<'_>) -> Result<u64, SpecError> {
    let (number, unit) = split_unit(word.need_value("100M")?);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => {
            return Err(
                word.wrong_value("a rate is in bits per second with K, M or G, such as 100M")
            );
        }
    };
    match millionths(number).and_then(|n| n.checked_mul(factor)).map(|n| n / 1_000_000) {
        Some(bps) if (1_000..=1_000_000_000_000).contains(&bps) => Ok(bps),
        _ => Err(word.wrong_value("a rate is a number from 1K to 1000G bits per second")),
    }
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut empty = true;
        let shares =
            [("loss", self.loss_ppm), ("reorder", self.reorder_ppm), ("dup", self.dup_ppm)];
        for (name, ppm) in shares
            .into_iter()
            .chain([("corrupt", self.corrupt_ppm), ("mark", self.mark_ppm)])
            .filter(|(_, ppm)| *ppm > 0)
        {
            write!(
                f,
                "{}{name}={}.{:04}%",
                if empty { "" } else { "," },
                ppm / 10_000,
                ppm % 10_000
            )?;
            empty = false;
        }
        if self.delay > Duration::ZERO {
            write!(f, "{}delay={}ns", if empty { "" } else { "," }, self.delay.as_nanos())?;
            empty = false;
        }
        if self.jitter > Duration::ZERO {
            let shape = if self.shape == JitterShape::Normal { "normal" } else { "uniform" };
            let order = if self.overtakes { "free" } else { "kept" };
            let comma = if empty { "" } else { "," };
            write!(
                f,
                "{comma}jitter={}ns,jitter-shape={shape},jitter-order={order}",
                self.jitter.as_nanos()
            )?;
            empty = false;
        }
        if self.rate_bps > 0 {
            write!(f, "{}rate={}", if empty { "" } else { "," }, self.rate_bps)?;
            empty = false;
        }
        write!(f, "{}limit={}", if empty { "" } else { "," }, self.limit)
    }
}

impl fmt::Display for FaultSpec {
    /// In words that are read again as the same faults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rx == self.tx {
            return self.rx.fmt(f);
        }
        for (comma, way, words) in [("", "rx.", &self.rx), (",", "tx.", &self.tx)] {
            let words = words.to_string().replace(',', &format!(",{way}"));
            write!(f, "{comma}{way}{words}")?;
        }
        Ok(())
    }
}
