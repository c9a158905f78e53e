//! Figures of the bench as people and machines read them.

use clearway_base::Duration;
use clearway_base::Histogram;
use serde_json::{Map, Value, json};

/// The percentiles that are told.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds in the unit that people would choose.
pub(super) fn span(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// A histogram in microseconds.
pub(super) fn times(times: &Histogram) -> Value {
    let us = |ns: u64| ns as f64 / 1e3;
    let mut map = Map::new();
    map.insert("count".into(), times.count().into());
    map.insert("min".into(), us(times.min()).into());
    map.insert("mean".into(), (times.mean() / 1e3).into());
    for percent in PERCENTILES {
        map.insert(format!("p{percent}"), us(times.percentile(percent)).into());
    }
    map.insert("max".into(), us(times.max()).into());
    map.into()
}

/// A histogram on one line.
pub(super) fn times_line(times: &Histogram) -> String {
    let mut line = format!("min {}", span(times.min()));
    for percent in PERCENTILES {
        line += &format!("  p{percent} {}", span(times.percentile(percent)));
    }
    line + &format!("  max {}", span(times.max()))
}

/// What one of `count` things cost the cores, from how long they were busy and how fast the
/// processor's counter ran meanwhile.
pub(super) struct Cost {
    pub(super) busy_ns: f64,
    pub(super) cycles: f64,
}

impl Cost {
    pub(super) fn of(busy: Duration, cycles: u64, measured: Duration, count: u64) -> Option<Cost> {
        if count == 0 || measured.as_nanos() == 0 {
            return None;
        }
        let busy_ns = busy.as_nanos() as f64 / count as f64;
        Some(Cost { busy_ns, cycles: busy_ns * cycles as f64 / measured.as_nanos() as f64 })
    }

    pub(super) fn json(cost: &Option<Cost>) -> Value {
        match cost {
            Some(cost) => json!({ "busy_ns": cost.busy_ns, "cycles": cost.cycles }),
            None => Value::Null,
        }
    }
}
