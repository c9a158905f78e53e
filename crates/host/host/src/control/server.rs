//! The control socket: a Unix stream; a line comes in, an answer goes out.
//!
//! One thread serves everybody in turn. A conversation costs at most one line of input and one
//! answer of output here: while its answer has not left, nothing more is read of it, so whoever
//! floods the socket waits for himself. When all places are taken, the conversation that has been
//! silent for longest makes room, so whoever comes is heard. Only the user who runs the host, root,
//! and users of the group that the settings name are heard.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use clearway_command::{Command, MAX_LINE, PcapTrace, Statements, parse};
use clearway_engine::Notifier;
use clearway_shm::activation::Given;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, getsockopt, socket, sockopt,
};
use nix::sys::stat::{Mode, fchmod};
use zeroize::{Zeroize as _, Zeroizing};

use super::plane::Control;
use crate::descriptors::Descriptors;
use crate::outcome::{Answer, CommandError, Outcome};

/// Conversations at once, if half of the descriptors that are kept for control are as many.
const MAX_CONVERSATIONS: usize = 64;

/// How long nobody is accepted when the system has no descriptor for it, in milliseconds.
const PAUSE_MS: u16 = 100;

/// Bytes taken of a conversation at a time.
const READ: usize = 4096;

/// The control socket of the host whose attach socket is at `attach_socket`: beside it, ending in
/// `.ctl`.
pub fn socket_beside(attach_socket: &Path) -> PathBuf {
    attach_socket.with_extension("ctl")
}

/// The socket and its thread. When this is dropped the thread ends and the file goes.
pub struct ControlSocket {
    path: PathBuf,
    /// The service manager made it: its file stays.
    is_given: bool,
    notifier: Notifier,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens the socket and serves it. A socket that nobody answers at is left from a host that
    /// died, and is replaced.
    ///
    /// Users of `group` are heard besides root and the host's user.
    pub fn open(
        path: &Path,
        group: Option<u32>,
        control: Arc<Control>,
    ) -> io::Result<ControlSocket> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another host answers there"));
        }
        clearway_shm::socket::refuse_other_files(path)?;
        remove_socket(path);
        let listener = listen(path, group)?;
        listener.set_nonblocking(true)?;
        ControlSocket::serve(listener, path, group, control)
    }

    /// Serves a socket at which the service manager listened until now. Its file gets the mode and
    /// the group that one of [`ControlSocket::open`] has, and stays.
    pub fn take_over(
        given: Given,
        group: Option<u32>,
        control: Arc<Control>,
    ) -> io::Result<ControlSocket> {
        given.take_over(mode(group), group)?;
        let mut socket = ControlSocket::serve(given.fd.into(), &given.path, group, control)?;
        socket.is_given = true;
        Ok(socket)
    }

    fn serve(
        listener: UnixListener,
        path: &Path,
        group: Option<u32>,
        control: Arc<Control>,
    ) -> io::Result<ControlSocket> {
        let notifier = Notifier::new()?;
        let most = MAX_CONVERSATIONS.min(Descriptors::of_system().for_control() / 2).max(1);
        let server = Server {
            listener,
            control,
            talks: Vec::new(),
            most,
            turn: 0,
            pausing: false,
            is_for_group: group.is_some(),
        };
        let stop = notifier.clone();
        let thread = std::thread::Builder::new()
            .name("clearway-ctl".into())
            .spawn(move || server.run(&stop))?;
        Ok(ControlSocket { path: path.to_owned(), is_given: false, notifier, thread: Some(thread) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.notifier.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if !self.is_given {
            remove_socket(&self.path);
        }
    }
}

/// Who may connect: our user, and a group.
fn mode(group: Option<u32>) -> u32 {
    if group.is_some() { 0o660 } else { 0o600 }
}

/// Conversations that wait to be accepted.
const BACKLOG: i32 = 128;

/// A listener for our user, and for a group. Its file has its owner and its mode before it listens,
/// so there is no moment at which others come in.
fn listen(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // Linux gives the file the mode of the socket, less the umask.
    fchmod(&fd, Mode::from_bits_truncate(0o600))?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    if group.is_some() {
        std::os::unix::fs::chown(path, None, group)?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode(group)))?;
    nix::sys::socket::listen(&fd, Backlog::new(BACKLOG)?)?;
    Ok(UnixListener::from(fd))
}

/// Removes a socket, and nothing else that may lie there.
fn remove_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt as _;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket {
        let _ = std::fs::remove_file(path);
    }
}

struct Server {
    listener: UnixListener,
    control: Arc<Control>,
    talks: Vec<Talk>,
    /// Conversations at most.
    most: usize,
    /// Counts rounds, to know who was silent for longest.
    turn: u64,
    /// The system had no descriptor for a conversation a moment ago.
    pausing: bool,
    /// Whoever the socket's file lets in is heard: a group has been given it.
    is_for_group: bool,
}

/// One conversation.
struct Talk {
    stream: UnixStream,
    statements: Statements,
    /// Read and not carried out: less than two lines. Wiped, for a line may hold a secret; it never
    /// grows beyond the place that it has from the start.
    input: Zeroizing<Vec<u8>>,
    /// To be written.
    output: Vec<u8>,
    /// What it becomes a stream of at the next line, if that is `go`.
    wanted: Option<PcapTrace>,
    /// It becomes one now.
    going: bool,
    /// The rest of a line that was too long is thrown away.
    skipping: bool,
    /// Nothing more is read; it ends when its output is written.
    ending: bool,
    /// When something came or went last, in rounds of the server.
    heard: u64,
}

impl Server {
    fn run(mut self, stop: &Notifier) {
        loop {
            let (stopped, ready) = match self.wait(stop) {
                Ok(found) => found,
                Err(error) => {
                    return tracing::error!(%error, "the control socket is served no more");
                }
            };
            if stopped {
                return;
            }
            let control = Arc::clone(&self.control);
            let mut ready = ready.into_iter();
            let is_new = ready.next().unwrap_or(false);
            self.turn += 1;
            let turn = self.turn;
            self.talks.retain_mut(|talk| {
                if !ready.next().unwrap_or(false) {
                    return true;
                }
                talk.heard = turn;
                talk.go_on(&control) && !talk.streams(&control)
            });
            if is_new {
                self.accept();
            }
        }
    }

    /// Waits until the notifier is set, or the listener (first) or conversations have something to
    /// do.
    fn wait(&self, stop: &Notifier) -> io::Result<(bool, Vec<bool>)> {
        let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        // Who cannot be accepted would wake us again and again.
        let open = if self.pausing { PollFlags::empty() } else { PollFlags::POLLIN };
        fds.push(PollFd::new(self.listener.as_fd(), open));
        for talk in &self.talks {
            let wanted =
                if talk.output.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
            fds.push(PollFd::new(talk.stream.as_fd(), wanted));
        }
        let most = if self.pausing { PollTimeout::from(PAUSE_MS) } else { PollTimeout::NONE };
        match poll(&mut fds, most) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
        Ok((ready.next().unwrap_or(true), ready.collect()))
    }

    fn accept(&mut self) {
        self.pausing = false;
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return;
            }
            Err(error) => {
                tracing::error!(%error, "limit reached: no command can be taken for the moment");
                self.end_longest_silent();
                self.pausing = true;
                return;
            }
        };
        if self.talks.len() >= self.most {
            self.end_longest_silent();
        }
        let mine = nix::unistd::geteuid();
        let theirs =
            getsockopt(&stream, sockopt::PeerCredentials).map(|credentials| credentials.uid());
        let heard = self.is_for_group || theirs.is_ok_and(|uid| uid == mine.as_raw() || uid == 0);
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut talk = Talk::new(stream, self.turn);
        if !heard {
            tracing::warn!(
                uid = theirs.unwrap_or(u32::MAX),
                "refused: commands are taken of the host's user and root only"
            );
            talk.output = Answer::not_heard(mine.as_raw()).framed().into_bytes();
            // What fits into the socket is said; there is no reason to wait.
            talk.write();
            return;
        }
        self.talks.push(talk);
    }

    /// Makes room. Who has just asked something is not silent, so this meets shells that were left
    /// open, and whoever only connects.
    fn end_longest_silent(&mut self) {
        let oldest =
            self.talks.iter().enumerate().min_by_key(|(_, talk)| talk.heard).map(|(at, _)| at);
        if let Some(at) = oldest {
            tracing::warn!(
                "limit reached: conversations on the control socket; the one that was silent for \
                 longest was ended"
            );
            self.talks.remove(at);
        }
    }
}

impl Talk {
    fn new(stream: UnixStream, heard: u64) -> Talk {
        Talk {
            stream,
            statements: Statements::default(),
            input: Zeroizing::new(Vec::with_capacity(MAX_LINE + READ + 2)),
            output: Vec::new(),
            wanted: None,
            going: false,
            skipping: false,
            ending: false,
            heard,
        }
    }

    /// Reads, carries out one line, writes. False when the conversation is over.
    fn go_on(&mut self, control: &Control) -> bool {
        if self.output.is_empty() && !self.ending && !self.has_line() && !self.read() {
            return false;
        }
        loop {
            if !self.write() {
                return false;
            }
            if !self.output.is_empty() {
                return true;
            }
            if !self.answer_line(control) {
                return !self.ending;
            }
        }
    }

    fn has_line(&self) -> bool {
        self.input.contains(&b'\n')
    }

    /// Takes what there is, as far as there is room. False at the end of the stream.
    fn read(&mut self) -> bool {
        // A line may hold a secret.
        let mut bytes = Zeroizing::new([0; READ]);
        match self.stream.read(&mut bytes[..]) {
            Ok(0) => {
                // A last line without its end is a line too.
                if self.input.is_empty() || self.skipping {
                    return false;
                }
                self.input.push(b'\n');
                self.ending = true;
                true
            }
            Ok(n) => {
                self.input.extend_from_slice(&bytes[..n]);
                true
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    /// Writes what it can. False when nobody reads any more.
    fn write(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return false,
                Ok(n) => drop(self.output.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Carries out the next line, if there is a whole one.
    fn answer_line(&mut self, control: &Control) -> bool {
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else {
            if self.input.len() > MAX_LINE {
                self.input.clear();
                self.skipping = true;
            }
            return false;
        };
        let line: Zeroizing<Vec<u8>> = Zeroizing::new(self.input.drain(..=end).collect());
        // What moved up left its end behind.
        self.input.spare_capacity_mut().zeroize();
        let answer = match std::mem::take(&mut self.skipping) {
            true => Some(control.execute(&" ".repeat(MAX_LINE + 1))),
            false => self.execute(control, &line[..end]),
        };
        let Some(answer) = answer else { return false };
        if answer.outcome == Outcome::Quit {
            self.ending = true;
            self.input.clear();
        }
        self.output.extend_from_slice(answer.framed().as_bytes());
        true
    }

    /// None: it is no conversation any more.
    fn execute(&mut self, control: &Control, line: &[u8]) -> Option<Answer> {
        let line = Zeroizing::new(String::from_utf8_lossy(line).into_owned());
        let wanted = self.wanted.take();
        if wanted.is_some() && line.trim() == GO {
            (self.wanted, self.going) = (wanted, true);
            return None;
        }
        Some(match self.statements.feed(&line) {
            Some(statement) => {
                let answer = control.execute(statement);
                if answer.outcome == Outcome::Done {
                    self.wanted = stream_of(statement);
                }
                answer
            }
            None => Answer { text: String::new(), outcome: Outcome::Done },
        })
    }

    /// Whether it is a stream of packets from now on, and no conversation.
    fn streams(&mut self, control: &Arc<Control>) -> bool {
        let Some(wanted) = self.wanted.take_if(|_| self.going) else { return false };
        let begun = self
            .stream
            .try_clone()
            .map_err(|error| CommandError::System(error.to_string()))
            .and_then(|stream| control.begin_stream(&wanted, stream));
        if let Err(error) = begun {
            self.going = false;
            let _ = self.stream.set_nonblocking(true);
            self.output = Answer::failed(&error, false).framed().into_bytes();
            return !self.write();
        }
        true
    }
}

/// The line that makes a conversation a stream.
const GO: &str = "go";

/// What a line asks to be made a stream of.
fn stream_of(line: &str) -> Option<PcapTrace> {
    match parse(line).ok()?.command {
        Command::PcapStream(wanted) => Some(wanted),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
