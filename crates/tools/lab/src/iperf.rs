//! iperf3, unmodified, over the kernel or over a host of ours.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::place::Place;
use crate::world::World;

/// What iperf3 adds to the time of a test.
const AROUND: Duration = Duration::from_secs(10);

/// Runs one test: the client's report, and the command lines.
pub(crate) fn test(
    world: &World<'_>,
    server: &Place,
    client: &Place,
    words: &str,
) -> anyhow::Result<(Value, Vec<String>)> {
    let serving = server.launch(world, "iperf3", "-s -1 --forceflush");
    let running = serving.start_until("Server listening", world.stop)?;
    let seconds = world.options.seconds.as_secs_f64().ceil();
    let asking = client.launch(world, "iperf3", &format!("{words} -t {seconds} -J"));
    let ended = asking.run(world.limit(AROUND), world.stop);
    let ended = ended.map_err(explain)?;
    running.succeed(AROUND, world.stop)?;
    let report: Value = serde_json::from_str(&ended.out).context("iperf3 printed no report")?;
    Ok((report, vec![serving.text(), asking.text()]))
}

/// iperf3 says what went wrong in its report.
fn explain(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    match text.split_once("\"error\":").and_then(|(_, rest)| rest.split('"').nth(1)) {
        Some(said) => anyhow::anyhow!("iperf3 failed: {said}"),
        None => error,
    }
}

/// Gbit/s that arrived.
pub(crate) fn received(report: &Value) -> anyhow::Result<f64> {
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits.filter(|bits| *bits > 0.0).context("iperf3 says that nothing arrived")? / 1e9)
}
