//! iperf3, unmodified, over the kernel or over a host of ours.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::process::{Launch, Running};
use crate::world::World;

/// What iperf3 adds to the time of a test.
const AROUND: Duration = Duration::from_secs(10);

/// How a program is started on one side.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// Namespace of ours and its secret; none for the kernel's sockets.
    pub(crate) ours: Option<(PathBuf, &'static str, &'static str)>,
    /// Between programs of one host that both want it, bytes go past the stack.
    pub(crate) cut_through: bool,
    /// The process whose network namespace it is in.
    pub(crate) inside: Option<Pid>,
    pub(crate) cores: Vec<usize>,
}

impl Place {
    fn launch(&self, world: &World<'_>, words: &str) -> Launch {
        let launch = match &self.ours {
            None => Launch::new("iperf3"),
            Some((socket, namespace, secret)) => {
                let cut_through = if self.cut_through { "--cut-through" } else { "" };
                Launch::new(&world.options.program)
                    .words(&format!("run --ns {namespace} --secret {secret} {cut_through} -- iperf3"))
                    .env("CLEARWAY_SOCKET", socket.to_string_lossy())
            }
        };
        let launch = launch.words(words).on(&self.cores);
        match self.inside {
            Some(holder) => launch.inside(holder),
            None => launch,
        }
    }
}

/// Runs one test: the client's report, and the command lines.
pub(crate) fn test(
    world: &World<'_>,
    server: &Place,
    client: &Place,
    words: &str,
) -> anyhow::Result<(Value, Vec<String>)> {
    let serving = server.launch(world, "-s -1 --forceflush");
    let running = serving.start_until("Server listening", world.stop)?;
    let seconds = world.options.seconds.as_secs_f64().ceil();
    let asking = client.launch(world, &format!("{words} -t {seconds} -J"));
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

/// A running `clearway up`, with these commands to begin with.
pub(crate) struct Host {
    running: Running,
    pub(crate) socket: PathBuf,
    pub(crate) text: String,
}

impl Host {
    pub(crate) fn up(world: &World<'_>, inside: Option<Pid>, commands: &[String]) -> anyhow::Result<Host> {
        let (socket, script) = (world.file("host.sock"), world.file("network"));
        std::fs::write(&script, commands.join("\n") + "\n")?;
        let core = world.options.server_cores.first().context("no core for the host")?;
        let launch = world.clearway(&format!("up --cores {core} --script"));
        let launch = launch.arg(text(&script)).env("CLEARWAY_SOCKET", text(&socket));
        let launch = match inside {
            Some(holder) => launch.inside(holder),
            None => launch,
        };
        let running = launch.start_until("clearway is ready", world.stop)?;
        Ok(Host { running, socket, text: launch.text() })
    }

    pub(crate) fn stop(self, world: &World<'_>) -> anyhow::Result<()> {
        self.running.stop(Signal::SIGTERM, world.stop)?;
        Ok(())
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Gbit/s that arrived.
pub(crate) fn received(report: &Value) -> anyhow::Result<f64> {
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits.filter(|bits| *bits > 0.0).context("iperf3 says that nothing arrived")? / 1e9)
}
