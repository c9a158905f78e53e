//! `clearway top`: programs and sessions of a running host, and what they do just now.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::Context as _;
use clearway_engine::Notifier;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::sample::Sample;
use self::screen::Screen;
use self::terminal::Terminal;
use self::view::{Between, Sort};
use crate::ctl::{Host, Place};
use crate::out;
use crate::signals::{Signals, Woken};

mod sample;
mod screen;
mod table;
mod terminal;
mod view;

/// Show what the programs and sessions of a running host do, and how busy its workers are.
///
/// On a terminal it goes on until `q` is pressed; `?` tells the keys. Rates are of the time between
/// two looks. When the host ends it says so, and goes on when there is one again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway top
  clearway top --sort retransmits --filter nginx
  clearway top --once
  clearway top --json --interval 5 | jq '.sessions[0]'")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// Look twice, one interval apart, print what was found and end; so also when standard output
    /// is no terminal
    #[arg(long)]
    once: bool,

    /// The same as JSON
    #[arg(long)]
    json: bool,

    /// Seconds between two looks, 0.1 to 3600
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,

    /// What comes first
    #[arg(short, long, value_enum, value_name = "KEY", default_value_t = Sort::Rate)]
    sort: Sort,

    /// Only programs and sessions with this text in their names, addresses or states
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    filter: String,
}

/// How long the host may take for one answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// How often signals and new figures are looked for between two keys.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn seconds(text: &str) -> Result<Duration, String> {
    let allowed = 0.1..=3_600.0;
    let seconds = text.parse::<f64>().ok().filter(|seconds| allowed.contains(seconds));
    let seconds = seconds.ok_or_else(|| "expected seconds, 0.1 to 3600".to_owned())?;
    Ok(Duration::from_secs_f64(seconds))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let is_terminal = out::stdout().is_terminal() && io::stdin().is_terminal();
    if args.once || args.json || !is_terminal {
        return once(args);
    }
    // A host that is not there at the beginning is a mistake in the command, and is told as one.
    drop(connect(&args.place)?);
    let signals = Signals::take()?;
    let looks = look_again_and_again(args);
    let mut terminal = Terminal::take()?;
    watch(args, &signals, &looks, &mut terminal)
}

fn connect(place: &Place) -> anyhow::Result<Host> {
    let mut host = Host::connect(place)?;
    host.answers_within(ANSWERS_WITHIN)?;
    Ok(host)
}

fn once(args: &Args) -> anyhow::Result<()> {
    let mut host = connect(&args.place)?;
    let before = Sample::of(&mut host)?;
    std::thread::sleep(args.interval);
    let now = Sample::of(&mut host)?;
    let between = Between::new(Some(&before), &now).sorted(args.sort, false).with(&args.filter);
    let mut out = out::stdout();
    if args.json {
        return Ok(writeln!(out, "{:#}", between.json())?);
    }
    Ok(out.write_all(table::text(&between).as_bytes())?)
}

/// What a look has found, or why nobody answered.
type Look = Result<Box<Sample>, String>;

/// Looks from a thread of its own: keys are answered also while the host is not.
fn look_again_and_again(args: &Args) -> Receiver<Look> {
    let (send, receive) = channel();
    let (place, interval) = (args.place.clone(), args.interval);
    std::thread::spawn(move || {
        let mut host = None;
        loop {
            let look = sample(&place, &mut host);
            if look.is_err() {
                host = None;
            }
            if send.send(look.map(Box::new).map_err(|error| format!("{error:#}"))).is_err() {
                return;
            }
            std::thread::sleep(interval);
        }
    });
    receive
}

fn sample(place: &Place, host: &mut Option<Host>) -> anyhow::Result<Sample> {
    if host.is_none() {
        *host = Some(connect(place)?);
    }
    Sample::of(host.as_mut().context("no host")?)
}

fn watch(
    args: &Args,
    signals: &Signals,
    looks: &Receiver<Look>,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let nobody = Notifier::new()?;
    let mut screen = Screen::new(args.sort, args.filter.clone());
    terminal.draw(&mut screen)?;
    loop {
        let mut changed = false;
        while let Ok(look) = looks.try_recv() {
            screen.look(look.map(|sample| *sample));
            changed = true;
        }
        if event::poll(LOOK_EVERY).context("the terminal is gone")? {
            match event::read().context("the terminal is gone")? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    if is_end(&key) || !screen.key(key.code) {
                        return Ok(());
                    }
                    if let Some(name) = screen.take_kill() {
                        screen.say(kill(args, &name));
                    }
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        if signals.wait(&nobody, Duration::ZERO)? == Woken::Signal {
            return Ok(());
        }
        if changed {
            terminal.draw(&mut screen)?;
        }
    }
}

/// Ctrl-C, which is a key here and no signal.
fn is_end(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Resets a connection; what came of it, in a sentence.
fn kill(args: &Args, name: &str) -> String {
    let done =
        connect(&args.place).and_then(|mut host| host.shown_if(&format!("session kill {name}")));
    match done {
        Ok(Some(_)) => format!("session {name} was reset"),
        Ok(None) => format!("session {name} was not there any more"),
        Err(error) => format!("session {name} was not reset: {error:#}"),
    }
}

#[cfg(test)]
mod tests;
