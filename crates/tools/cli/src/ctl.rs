//! `clearway ctl`: commands for a running host, once, from a pipe, or in a shell.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clearway_errors::Code;
use clearway_host::control::socket_beside;
use clearway_host::{Answer, Outcome};
use clearway_shm::paths;
use serde_json::Value;

use crate::error::{Coded, WrongUse};
use crate::out;

mod drain;
mod shell;

/// Give a running host stack commands.
///
/// With a command: carries it out. Without one: a shell with history, completion (Tab) and help
/// (?), or, from a pipe, a command a line.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway ctl show interface
  clearway ctl --json show session verbose
  clearway ctl ip route add 172.16.1.1/32 table 2 via lookup in table 1
  clearway ctl drain --grace 2 --timeout 60      waits until the old connections are over
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
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Place {
    /// The host's socket, or its control socket [default: $CLEARWAY_SOCKET, or host.sock in the
    /// runtime folder]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[cfg(test)]
impl Args {
    /// The line that a host is given, where it is one command: what the client itself carries out
    /// (`drain` with its options) is not.
    pub(crate) fn line(&self) -> Option<String> {
        let is_for_host = self.command.first().is_some_and(|word| word != "drain");
        is_for_host.then(|| one_line(&self.command))
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut host = Host::connect(&args.place)?;
    if let Some(("drain", more)) = args.command.split_first().map(|(f, more)| (f.as_str(), more)) {
        return drain::run(host, more, args.json);
    }
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
    let quoted = |word: &String| match word
        .contains(|c: char| c.is_whitespace() || "\"'#".contains(c))
        || word.is_empty()
    {
        true if words.len() == 1 => word.clone(),
        true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
        false => word.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Why nobody can be asked at `path`, and what to do.
fn why_not(path: &Path, error: &io::Error) -> Coded {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let at = path.display();
    let meta = std::fs::symlink_metadata(path);
    let (code, sentence) = match (error.kind(), meta) {
        (io::ErrorKind::PermissionDenied, Ok(meta)) => (
            Code::NotHeard,
            format!(
                "permission denied at {at}: commands are taken of root and of the user who runs the \
             host (uid {}) only. \
             Use sudo, or that user",
                meta.uid()
            ),
        ),
        (io::ErrorKind::PermissionDenied, Err(_)) => (
            Code::NotHeard,
            format!(
                "permission denied at {at}: its folder is closed to this user. Commands are taken of \
             root and of the user who \
             runs the host only; use sudo, or that user"
            ),
        ),
        (_, Ok(meta)) if !meta.file_type().is_socket() => {
            let sentence = format!(
                "what lies at {at} is no host's socket. Name the socket of the host with --socket"
            );
            (Code::NoHostsSocket, sentence)
        }
        _ => (
            Code::NoHost,
            format!(
                "no host answers at {at}. Start one with `clearway up`, or name its socket with \
             --socket"
            ),
        ),
    };
    Coded::new(code, sentence)
}

/// A conversation with a host.
pub(crate) struct Host {
    input: BufReader<UnixStream>,
    over: bool,
}

impl Host {
    pub(crate) fn connect(place: &Place) -> anyhow::Result<Host> {
        let path = place.path();
        let stream = UnixStream::connect(&path).map_err(|error| {
            let sentence = why_not(&path, &error);
            anyhow!(error).context(sentence)
        })?;
        Ok(Host { input: BufReader::new(stream), over: false })
    }

    /// Waits no longer than this for each answer.
    pub(crate) fn answers_within(&mut self, time: Duration) -> anyhow::Result<()> {
        let stream = self.input.get_mut();
        stream.set_read_timeout(Some(time))?;
        Ok(stream.set_write_timeout(Some(time))?)
    }

    /// Sends one line and reads its answer.
    fn ask(&mut self, line: &str, json: bool) -> anyhow::Result<Answer> {
        let ended = || Coded::new(Code::HostSilent, "the host has ended the conversation");
        let line = if json { format!("{line} --json\n") } else { format!("{line}\n") };
        let written = self.input.get_mut().write_all(line.as_bytes());
        // A host that does not hear us says why before it ends the conversation.
        let answer = Answer::read((&mut self.input).lines());
        let answer = match (written, answer) {
            (_, Ok(Some(answer))) => answer,
            (_, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                let late = Coded::new(Code::HostSilent, "the host does not answer in time");
                return Err(late.into());
            }
            (Err(error), _) | (_, Err(error)) => return Err(anyhow!(error).context(ended())),
            (_, Ok(None)) => return Err(ended().into()),
        };
        self.over |= answer.outcome == Outcome::Quit;
        Ok(answer)
    }

    /// Makes the conversation a stream of packets, as the command says.
    pub(crate) fn into_stream(mut self, line: &str) -> anyhow::Result<UnixStream> {
        let answer = self.ask(line, false)?;
        if answer.outcome != Outcome::Done {
            return Err(Coded::heard("", answer.text.trim_end()).into());
        }
        let mut stream = self.input.into_inner();
        stream.write_all(b"go\n")?;
        Ok(stream)
    }

    /// What a command shows, to be looked into.
    pub(crate) fn shown(&mut self, line: &str) -> anyhow::Result<Value> {
        let answer = self.ask(line, true)?;
        match answer.outcome {
            Outcome::Done => serde_json::from_str(&answer.text)
                .context("the host answers with something else than JSON"),
            _ => Err(refused(line, &answer)),
        }
    }

    /// The same; None: the host understood and did not do it.
    pub(crate) fn shown_if(&mut self, line: &str) -> anyhow::Result<Option<Value>> {
        let answer = self.ask(line, true)?;
        match answer.outcome {
            Outcome::Failed => Ok(None),
            Outcome::Done => Ok(Some(serde_json::from_str(&answer.text)?)),
            _ => Err(refused(line, &answer)),
        }
    }

    /// The same, with the answer to where it belongs.
    fn once(&mut self, line: &str, json: bool) -> anyhow::Result<()> {
        if line.contains('\n') {
            return Err(WrongUse("a command is one line".into()).into());
        }
        let answer = self.ask(line, json)?;
        let text = answer.text.trim_end();
        let is_wrong_use = answer.outcome == Outcome::WrongUse;
        match answer.outcome {
            Outcome::Done | Outcome::Quit => out::all(answer.text),
            Outcome::Failed | Outcome::WrongUse if json => {
                writeln!(out::stdout(), "{text}")?;
                let sentence = "the command was not carried out";
                let code = code_in(text).unwrap_or(Code::Failed);
                Err(Coded::new(code, sentence).if_wrong_use(is_wrong_use).into())
            }
            Outcome::Failed | Outcome::WrongUse => {
                Err(Coded::heard("", text).if_wrong_use(is_wrong_use).into())
            }
        }
    }
}

/// The class that an answer in JSON tells.
fn code_in(json: &str) -> Option<Code> {
    serde_json::from_str::<Value>(json).ok()?.get("code")?.as_str().and_then(Code::of)
}

/// A question in JSON that was not answered.
fn refused(line: &str, answer: &Answer) -> anyhow::Error {
    let json = serde_json::from_str::<Value>(&answer.text).unwrap_or_default();
    let sentence = json["error"].as_str().unwrap_or(answer.text.trim_end());
    let code = code_in(&answer.text).unwrap_or(Code::Failed);
    Coded::new(code, format!("{line}: {sentence}")).into()
}

impl Place {
    /// The host at this socket, or where it usually is.
    pub(crate) fn at(socket: Option<PathBuf>) -> Place {
        Place { socket: socket.filter(|path| !path.as_os_str().is_empty()) }
    }

    /// The control socket: the one that was named, or the one beside the host's socket.
    pub(crate) fn path(&self) -> PathBuf {
        let attach_socket = self.socket.clone().unwrap_or_else(paths::attach_socket_of_host);
        if attach_socket.extension() == Path::new("x.ctl").extension() {
            attach_socket
        } else {
            socket_beside(&attach_socket)
        }
    }
}

#[cfg(test)]
mod tests;
