//! What the generator prints: a line per second, a row per size, and the table at the end.

use clearway_base::{Duration, Histogram};
use clearway_traffic::{Came, Sent, WIRE_EXTRA};
use serde_json::{Map, Value, json};

use super::Args;
use super::queue::{Job, Report};
use crate::figures::{self, Form};
use crate::reflect::port_drops;

/// All queues together.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) sent: Sent,
    pub(super) came: Came,
    latency_sum_ns: u64,
    latency_count: u64,
    port_drops: u64,
}

impl Totals {
    /// Of those reports that are about this size.
    pub(super) fn of(reports: &[Report], index: usize) -> Totals {
        let mut totals = Totals::default();
        for report in reports.iter().filter(|report| report.is_of(index)) {
            totals.sent.add(&report.sent);
            totals.came.add(&report.came);
            totals.latency_sum_ns += report.latency_sum_ns;
            totals.latency_count += report.latency_count;
            totals.port_drops += report.port_drops;
        }
        totals
    }
}

/// One second of one size.
pub(super) struct Second<'a> {
    pub(super) size: usize,
    pub(super) seconds: Duration,
    pub(super) now: &'a Totals,
    pub(super) before: &'a Totals,
}

/// One size, all queues.
pub(super) struct Row {
    size: usize,
    sent: Sent,
    came: Came,
    latency: Histogram,
    sent_for: f64,
    came_for: f64,
    port_drops: u64,
    lost: u64,
    queues: Vec<Value>,
    drops: Map<String, Value>,
}

fn seconds(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e9
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

impl Row {
    /// None when no queue has anything to tell.
    pub(super) fn of(args: &Args, job: &Job, index: usize) -> Option<Row> {
        let outcomes = job.outcomes(index);
        let (mut sent, mut came, mut latency) =
            (Sent::default(), Came::default(), Histogram::new());
        for outcome in &outcomes {
            sent.add(&outcome.sent);
            came.add(&outcome.came);
            latency.add(&outcome.latency);
        }
        let port_drops_total = outcomes.iter().map(|outcome| outcome.port_drops).sum();
        let longest =
            |of: fn(&super::queue::Outcome) -> Duration| outcomes.iter().map(of).max().map(seconds);
        let queues = outcomes.iter().map(|outcome| {
            json!({ "sent": outcome.sent.frames - outcome.port_drops.min(outcome.sent.frames),
                "received": outcome.came.frames })
        });
        let took = sent.frames.saturating_sub(port_drops_total);
        Some(Row {
            size: args.sizes[index],
            lost: took.saturating_sub(came.frames),
            came,
            latency,
            sent_for: longest(|outcome| outcome.sent_for)?,
            came_for: longest(|outcome| outcome.came_for)?,
            port_drops: port_drops_total,
            queues: queues.collect(),
            drops: port_drops(outcomes.iter().map(|outcome| outcome.port)),
            sent: Sent { frames: took, bytes: took * args.sizes[index] as u64, ..sent },
        })
    }

    fn lost_percent(&self) -> f64 {
        if self.sent.frames == 0 { 0.0 } else { self.lost as f64 * 100.0 / self.sent.frames as f64 }
    }

    /// Frames per second, out and in.
    fn pps(&self) -> (f64, f64) {
        (rate(self.sent.frames, self.sent_for), rate(self.came.frames, self.came_for))
    }

    /// Mbit/s, out and in, with so many bytes more per frame.
    fn mbit(&self, extra: u64) -> (f64, f64) {
        let bits = ((self.size as u64 + extra) * 8) as f64 / 1e6;
        let (tx, rx) = self.pps();
        (tx * bits, rx * bits)
    }
}

fn extra(args: &Args) -> u64 {
    if args.wire { WIRE_EXTRA } else { 0 }
}

/// All queues have begun.
pub(super) fn ready(args: &Args, form: Form) -> anyhow::Result<()> {
    let port = clearway_ports::describe(&args.crew.port);
    let queues = args.crew.queues();
    if form == Form::Json {
        let cores = args.crew.cores.as_ref().map(|cores| cores.list().to_vec());
        return figures::json(&json!({
            "event": "ready", "port": port, "queues": queues, "cores": cores, "sizes": args.sizes,
                "rate": args.rate.to_string(),
            "flows": args.flows.max(queues as u32), "proto": args.proto,
                "seconds": args.seconds.as_secs_f64(),
        }));
    }
    let queues = if queues == 1 { "1 queue".into() } else { format!("{queues} queues") };
    let (places, rate, flows) =
        (args.crew.places(), args.rate, args.flows.max(args.crew.queues() as u32));
    let flows = if flows == 1 { "1 flow".into() } else { format!("{flows} flows") };
    let count = if args.wire {
        "as on a wire, with 24 bytes more per frame"
    } else {
        "of the frames that the port is given"
    };
    figures::line(&format!(
        "Sending {} over {port}: {queues} on {places}, {flows}, offering {rate}. Mbit/s are \
         {count}.",
        args.proto
    ))?;
    Ok(())
}

/// The head of the rows.
pub(super) fn head() -> String {
    format!(
        "{:>6} {:>19} {:>17} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "size",
        "Mbit/s tx/rx",
        "Mpps tx/rx",
        "lost",
        "%",
        "reorder",
        "p50 us",
        "p99 us",
        "p99.9 us"
    )
}

/// One second.
pub(super) fn tell_second(args: &Args, form: Form, second: &Second<'_>) -> anyhow::Result<()> {
    let (now, before, took) = (second.now, second.before, seconds(second.seconds));
    let frames = |totals: &Totals| totals.sent.frames.saturating_sub(totals.port_drops);
    let tx = rate(frames(now).saturating_sub(frames(before)), took);
    let rx = rate(now.came.frames - before.came.frames, took);
    let bits = ((second.size as u64 + extra(args)) * 8) as f64 / 1e6;
    let missing = now.came.missing as i64 - before.came.missing as i64;
    let count = now.latency_count - before.latency_count;
    let mean_us = if count == 0 {
        0.0
    } else {
        (now.latency_sum_ns - before.latency_sum_ns) as f64 / count as f64 / 1e3
    };
    match form {
        Form::Quiet => Ok(()),
        Form::Live => Ok(figures::line(&format!(
            "{:>6} {:>19} {:>17} {missing:>10} missing  {mean_us:>9.1} us",
            second.size,
            format!("{:.1}/{:.1}", tx * bits, rx * bits),
            format!("{:.3}/{:.3}", tx / 1e6, rx / 1e6),
        ))?),
        Form::Json => figures::json(&json!({
            "event": "second", "size": second.size, "seconds": took, "tx_mpps": tx / 1e6,
                "rx_mpps": rx / 1e6,
            "tx_mbit_per_s": tx * bits, "rx_mbit_per_s": rx * bits, "missing": missing,
                "latency_mean_us": mean_us,
        })),
    }
}

/// One size is done.
pub(super) fn tell_row(args: &Args, form: Form, row: &Row) -> anyhow::Result<()> {
    let ((tx, rx), (tx_pps, rx_pps)) = (row.mbit(extra(args)), row.pps());
    let us = |percent| row.latency.percentile(percent) as f64 / 1e3;
    if form == Form::Json {
        return figures::json(&json!({
            "event": "size", "size": row.size, "seconds": row.sent_for, "rx_seconds": row.came_for,
            "sent": row.sent.frames, "received": row.came.frames, "lost": row.lost,
                "lost_percent": row.lost_percent(),
            "short": row.sent.short, "reordered": row.came.reordered,
                "duplicates": row.came.duplicates,
            "damaged": row.came.damaged, "stale": row.came.stale, "foreign": row.came.foreign,
            "tx_mpps": tx_pps / 1e6, "rx_mpps": rx_pps / 1e6, "tx_mbit_per_s": tx,
                "rx_mbit_per_s": rx,
            "latency_us": {
                "min": row.latency.min() as f64 / 1e3, "mean": row.latency.mean() / 1e3,
                    "p50": us(50.0), "p90": us(90.0),
                "p99": us(99.0), "p99_9": us(99.9), "max": row.latency.max() as f64 / 1e3,
            },
            "queues": row.queues, "port_drops": row.port_drops, "drops_by_reason": row.drops,
        }));
    }
    figures::line(&format!(
        "{:>6} {:>19} {:>17} {:>10} {:>8.4} {:>9} {:>9.1} {:>9.1} {:>9.1}",
        row.size,
        format!("{tx:.1}/{rx:.1}"),
        format!("{:.3}/{:.3}", tx_pps / 1e6, rx_pps / 1e6),
        row.lost,
        row.lost_percent(),
        row.came.reordered,
        us(50.0),
        us(99.0),
        us(99.9),
    ))?;
    let others = [
        ("due and not taken by the port", row.sent.short),
        ("twice", row.came.duplicates),
        ("damaged", row.came.damaged),
        ("of an earlier size", row.came.stale),
        ("not ours", row.came.foreign),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if !others.is_empty() {
        figures::line(&format!("       {}", others.join(", ")))?;
    }
    for (reason, count) in &row.drops {
        figures::line(&format!("       dropped, {reason}: {count}"))?;
    }
    Ok(())
}

/// The table in the shape of the measurement that this command repeats: a line per number of
/// queues, a column per size.
pub(super) fn summary(args: &Args, form: Form, rows: &[Row]) -> anyhow::Result<()> {
    let queues = args.crew.queues();
    if form == Form::Json {
        let all = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
        return figures::json(&json!({
            "event": "summary", "port": clearway_ports::describe(&args.crew.port), "queues": queues,
            "sent": all(|row| row.sent.frames), "received": all(|row| row.came.frames),
                "lost": all(|row| row.lost),
            "table": rows.iter().map(|row| {
                let ((tx, rx), (tx_pps, rx_pps)) = (row.mbit(extra(args)), row.pps());
                json!({ "size": row.size, "mbit_per_s": [tx, rx],
                    "mpps": [tx_pps / 1e6, rx_pps / 1e6] })
            }).collect::<Vec<_>>(),
        }));
    }
    if rows.len() < 2 {
        return Ok(());
    }
    let label = format!("{queues}Q ({})", args.crew.places());
    let width = label.len().max(8);
    let line = |first: &str, cell: &dyn Fn(&Row) -> String| {
        let cells: Vec<String> = rows.iter().map(|row| format!("{:>15}", cell(row))).collect();
        figures::line(&format!("{first:<width$} {}", cells.join(" ")))
    };
    figures::line("")?;
    line("tx/rx", &|row| format!("{:04}", row.size))?;
    line(&label, &|row| {
        let (tx, rx) = row.mbit(extra(args));
        format!("{tx:.0}/{rx:.0}")
    })?;
    line("Mpps", &|row| {
        let (tx, rx) = row.pps();
        format!("{:.3}/{:.3}", tx / 1e6, rx / 1e6)
    })?;
    line("lost %", &|row| format!("{:.4}", row.lost_percent()))?;
    Ok(())
}
