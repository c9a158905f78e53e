//! `clearway ctl`: commands for a running host, once, from a pipe, or in a shell.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clearway_host::control::socket_beside;
use clearway_host::{Answer, Outcome};
use clearway_shm::paths;

use crate::error::WrongUse;

mod shell;

/// Give a running host stack commands.
///
/// With a command: carries it out. Without one: a shell with history, completion (Tab) and help (?), or, from a pipe, a command a line.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway ctl show interface
  clearway ctl --json show session verbose
  clearway ctl ip route add 172.16.1.1/32 table 2 via lookup in table 1
  clearway ctl < network.txt")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// Answers in JSON
    #[arg(long)]
    json: bool,

    /// The command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Say which sockets of programs stayed with the kernel, and why.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway explain
  clearway explain --json")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    place: Place,

    /// Answers in JSON
    #[arg(long)]
    json: bool,

    /// One process [default: all programs]
    pid: Option<u32>,
}

/// Where the host is.
#[derive(clap::Args, Debug)]
struct Place {
    /// The host's socket, or its control socket [default: $CLEARWAY_SOCKET, or host.sock in the runtime folder]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut host = Host::connect(&args.place)?;
    if !args.command.is_empty() {
        return host.once(&one_line(&args.command), args.json);
    }
    if io::stdin().is_terminal() {
        return shell::run(host, args.json);
    }
    for line in io::stdin().lock().lines() {
        host.once(&line.context("cannot read the commands")?, args.json)?;
        if host.over {
            break;
        }
    }
    Ok(())
}

pub(crate) fn explain(args: ExplainArgs) -> anyhow::Result<()> {
    let line = args.pid.map_or("show explain".into(), |pid| format!("show explain {pid}"));
    Host::connect(&args.place)?.once(&line, args.json)
}

/// Arguments as one line; what would fall apart is put in quotes.
fn one_line(words: &[String]) -> String {
    let quoted =
        |word: &String| match word.contains(|c: char| c.is_whitespace() || "\"'#".contains(c)) || word.is_empty() {
            true if words.len() == 1 => word.clone(),
            true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
            false => word.clone(),
        };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A conversation with a host.
struct Host {
    input: BufReader<UnixStream>,
    over: bool,
}

impl Host {
    fn connect(place: &Place) -> anyhow::Result<Host> {
        let path = place.path();
        let stream = UnixStream::connect(&path).with_context(|| {
            format!(
                "no host answers at {}. Start one with `clearway up`, or name its socket with --socket",
                path.display()
            )
        })?;
        Ok(Host { input: BufReader::new(stream), over: false })
    }

    /// Sends one line and reads its answer.
    fn ask(&mut self, line: &str, json: bool) -> anyhow::Result<Answer> {
        let ended = || anyhow!("the host has ended the conversation");
        let line = if json { format!("{line} --json\n") } else { format!("{line}\n") };
        self.input.get_mut().write_all(line.as_bytes()).map_err(|error| anyhow!(error).context(ended()))?;
        let answer = Answer::read((&mut self.input).lines()).map_err(|error| anyhow!(error).context(ended()))?;
        let answer = answer.ok_or_else(ended)?;
        self.over |= answer.outcome == Outcome::Quit;
        Ok(answer)
    }

    /// The same, with the answer to where it belongs.
    fn once(&mut self, line: &str, json: bool) -> anyhow::Result<()> {
        if line.contains('\n') {
            return Err(WrongUse("a command is one line".into()).into());
        }
        let answer = self.ask(line, json)?;
        let text = answer.text.trim_end();
        match answer.outcome {
            Outcome::Done | Outcome::Quit => Ok(io::stdout().write_all(answer.text.as_bytes())?),
            Outcome::Failed | Outcome::WrongUse if json => {
                writeln!(io::stdout(), "{text}")?;
                let sentence = "the command was not carried out";
                if answer.outcome == Outcome::Failed { bail!(sentence) } else { Err(WrongUse(sentence.into()).into()) }
            }
            Outcome::Failed => Err(anyhow!("{text}")),
            Outcome::WrongUse => Err(WrongUse(text.into()).into()),
        }
    }
}

impl Place {
    /// The control socket: the one that was named, or the one beside the host's socket.
    fn path(&self) -> PathBuf {
        let door = self.socket.clone().unwrap_or_else(paths::door);
        if door.extension() == Path::new("x.ctl").extension() { door } else { socket_beside(&door) }
    }
}

#[cfg(test)]
mod tests;
