//! `clearway ctl drain`: has new connections go to other machines, and waits for the old ones.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Parser;
use serde_json::{Value, json};

use super::Host;
use crate::error::WrongUse;
use crate::out;

/// How often the host is asked what is left.
const EVERY: Duration = Duration::from_millis(100);

/// How often a line says so.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Have new connections go to other machines, and wait until the old ones are over.
///
/// From the beginning on `clearway health` says draining and /healthz answers 503. Exit code 0 when
/// no connection is left, 1 when some are after --timeout; the host stays drained, and programs
/// keep what they have. `clearway ctl undrain` takes it back.
#[derive(Parser, Debug)]
#[command(name = "clearway ctl drain", disable_version_flag = true)]
struct Args {
    /// What becomes of new connections
    #[arg(value_enum, default_value_t = Mode::Refuse)]
    mode: Mode,

    /// Take new connections for so long still: until routers know
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=86_400))]
    grace: u32,

    /// Wait no longer than this for the old ones [default: as long as there are some]
    #[arg(long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(..=31_536_000))]
    timeout: Option<u32>,

    /// Do not wait
    #[arg(long)]
    no_wait: bool,

    /// The outcome in JSON, and no lines meanwhile
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// They are taken still: nothing is waited for
    Announce,
    /// They are refused with a reset: who connects knows at once
    Refuse,
    /// Their SYNs are dropped: who connects tries again, and by then the network leads elsewhere
    Silent,
}

impl Mode {
    fn command(self) -> &'static str {
        match self {
            Mode::Announce => "drain announce",
            Mode::Refuse => "drain refuse",
            Mode::Silent => "drain silent",
        }
    }
}

/// What is left of the connections.
struct Left {
    connections: u64,
    parts: [u64; 3],
    kept_out: u64,
    draining: bool,
}

pub(super) fn run(mut host: Host, words: &[String], json: bool) -> anyhow::Result<()> {
    let name = "clearway ctl drain".to_owned();
    let args = match Args::try_parse_from(std::iter::once(&name).chain(words)) {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let text = error.render().to_string();
            return Err(WrongUse(text.trim_end().trim_start_matches("error: ").into()).into());
        }
        Err(help) => return Ok(help.print()?),
    };
    let json = json || args.json;
    if args.mode == Mode::Announce || args.no_wait && args.grace == 0 {
        return host.once(args.mode.command(), json);
    }
    let begun = Instant::now();
    if args.grace > 0 {
        host.shown(Mode::Announce.command())?;
        std::thread::sleep(Duration::from_secs(args.grace.into()));
    }
    host.shown(args.mode.command())?;
    if args.no_wait {
        return Ok(());
    }
    let waited =
        Waiting { begun, until: args.timeout.map(|s| Duration::from_secs(s.into())), json }
            .wait(&mut host)?;
    let seconds = begun.elapsed().as_secs_f64();
    let Waited { first, last } = waited;
    if json {
        let told = json!({
            "drained": last.connections == 0,
            "seconds": (seconds * 1e3).round() / 1e3,
            "connections-at-first": first,
            "connections": last.connections,
            "kept-out": last.kept_out,
        });
        writeln!(out::stdout(), "{told:#}")?;
    } else if last.connections == 0 {
        writeln!(
            out::stdout(),
            "drained: {first} connections ended within {seconds:.1} s, {} SYNs were kept out",
            last.kept_out
        )?;
    }
    if last.connections > 0 {
        bail!(
            "{} connections are left after {seconds:.1} s. The host stays drained; `clearway ctl \
             undrain` takes that back, and `clearway ss -K` ends connections",
            last.connections
        );
    }
    Ok(())
}

struct Waiting {
    begun: Instant,
    until: Option<Duration>,
    json: bool,
}

struct Waited {
    /// Connections when the waiting began.
    first: u64,
    last: Left,
}

impl Waiting {
    fn wait(&self, host: &mut Host) -> anyhow::Result<Waited> {
        let mut left = look(host)?;
        let (first, kept_out_before) = (left.connections, left.kept_out);
        let mut told: Option<(Instant, u64)> = None;
        loop {
            if !left.draining {
                bail!("somebody has taken the draining back");
            }
            let due = told.is_none_or(|(at, _)| at.elapsed() >= TELL_EVERY);
            if !self.json && due && left.connections > 0 {
                let rate = told.map_or(0.0, |(at, before)| {
                    before.saturating_sub(left.connections) as f64 / at.elapsed().as_secs_f64()
                });
                eprintln!("{}", self.line(&left, first, rate));
                told = Some((Instant::now(), left.connections));
            }
            let is_late = self.until.is_some_and(|until| self.begun.elapsed() >= until);
            if left.connections == 0 || is_late {
                left.kept_out -= kept_out_before.min(left.kept_out);
                return Ok(Waited { first, last: left });
            }
            std::thread::sleep(EVERY);
            left = look(host)?;
        }
    }

    fn line(&self, left: &Left, first: u64, rate: f64) -> String {
        let [open, waiting, closing] = left.parts;
        let limit = self.until.map_or(String::new(), |until| format!(" of {}", until.as_secs()));
        format!(
            "draining: {} of {first} connections left (open {open}, waiting {waiting}, closing \
             {closing}), {rate:.1} ended each second, {:.0}{limit} s",
            left.connections,
            self.begun.elapsed().as_secs_f64(),
        )
    }
}

fn look(host: &mut Host) -> anyhow::Result<Left> {
    let shown = host.shown("show drain")?;
    let number = |key: &str| -> u64 { shown.get(key).and_then(Value::as_u64).unwrap_or(0) };
    Ok(Left {
        connections: number("connections"),
        parts: ["open", "waiting", "closing"].map(number),
        kept_out: number("kept-out"),
        draining: shown["draining"] == true,
    })
}
