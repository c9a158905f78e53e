//! One request and its answer. The connection ends behind it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gather::{Asker, Found};

/// Who talks at once.
pub(super) const MAX_TALKS: usize = 32;

/// How long a talk may take, from the first byte to the last.
pub(super) const WITHIN: Duration = Duration::from_secs(10);

/// How long a worker may take to answer before it counts as one that hangs.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Bytes of a request at most.
const MAX_REQUEST: usize = 8 << 10;

/// Lines of a request's head at most.
const MAX_HEADERS: usize = 64;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What comes and goes over either kind of socket.
pub(super) trait Stream: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Stream for T {}

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Metrics { open: bool },
    Health,
}

enum State {
    Reading(Vec<u8>),
    Waiting { wanted: Wanted, with_body: bool, asked: Instant },
    Writing { text: Arc<[u8]>, done: usize },
}

/// A talk.
pub(super) struct Talk {
    stream: Box<dyn Stream>,
    state: State,
    begun: Instant,
}

impl Talk {
    pub(super) fn new(stream: Box<dyn Stream>, now: Instant) -> Talk {
        Talk { stream, state: State::Reading(Vec::new()), begun: now }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it waits to be read from, to be written to, or for neither.
    pub(super) fn waits_for(&self) -> (bool, bool) {
        match self.state {
            State::Reading(_) => (true, false),
            State::Waiting { .. } => (false, false),
            State::Writing { .. } => (false, true),
        }
    }

    /// Has asked for nothing yet.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    /// When something is to be done though nothing comes.
    pub(super) fn due(&self) -> Instant {
        match self.state {
            State::Waiting { asked, .. } => (asked + ANSWER_WITHIN).min(self.begun + WITHIN),
            _ => self.begun + WITHIN,
        }
    }

    /// Does what can be done now. False when it is over.
    pub(super) fn go_on(&mut self, now: Instant, asker: &Asker) -> bool {
        if now >= self.begun + WITHIN {
            return false;
        }
        loop {
            let before = std::mem::discriminant(&self.state);
            let goes_on = match &mut self.state {
                State::Reading(_) => self.read(now),
                State::Waiting { wanted, with_body, asked } => {
                    let (wanted, with_body, asked) = (*wanted, *with_body, *asked);
                    let late = || {
                        (now >= asked + ANSWER_WITHIN)
                            .then(|| Err("a worker or the supervisor does not answer".to_owned()))
                    };
                    if let Some(found) =
                        asker.found_since(asked).or_else(|| asker.ask()).or_else(late)
                    {
                        let answer = answer(wanted, &found, asker.is_draining());
                        self.write_later(&answer, with_body);
                    }
                    true
                }
                State::Writing { text, done } => match self.stream.write(&text[*done..]) {
                    Ok(0) => false,
                    Ok(more) => {
                        *done += more;
                        *done < text.len()
                    }
                    Err(error) => is_passing(&error),
                },
            };
            if !goes_on {
                return false;
            }
            if std::mem::discriminant(&self.state) == before {
                return true;
            }
        }
    }

    /// Reads the head of a request. False when nobody is there any more.
    fn read(&mut self, now: Instant) -> bool {
        let State::Reading(input) = &mut self.state else { return true };
        let mut bytes = [0; 2048];
        match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(more) => input.extend_from_slice(&bytes[..more]),
            Err(error) => return is_passing(&error),
        }
        let too_long = input.len() > MAX_REQUEST;
        match request(input) {
            Request::Unfinished if too_long => self.refuse("431 Request Header Fields Too Large"),
            Request::Unfinished => {}
            Request::Wrong(status) => self.refuse(status),
            Request::For { wanted, with_body } => {
                self.state = State::Waiting { wanted, with_body, asked: now };
            }
        }
        true
    }

    fn refuse(&mut self, status: &'static str) {
        let body = Arc::from(format!("{status}\n"));
        self.write_later(&Answer { status, kind: PLAIN, body }, true);
    }

    fn write_later(&mut self, answer: &Answer, with_body: bool) {
        self.state = State::Writing { text: answer.bytes(with_body), done: 0 };
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

enum Request {
    Unfinished,
    Wrong(&'static str),
    For { wanted: Wanted, with_body: bool },
}

fn request(input: &[u8]) -> Request {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(input) {
        Ok(httparse::Status::Partial) => return Request::Unfinished,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Request::Wrong("400 Bad Request"),
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Request::Wrong("405 Method Not Allowed"),
    };
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let takes_open = request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("accept")
            && String::from_utf8_lossy(header.value).contains("application/openmetrics-text")
    });
    let wanted = match path {
        "/metrics" => Wanted::Metrics { open: takes_open },
        "/healthz" => Wanted::Health,
        _ => return Request::Wrong("404 Not Found"),
    };
    Request::For { wanted, with_body }
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Arc<str>,
}

impl Answer {
    fn bytes(&self, with_body: bool) -> Arc<[u8]> {
        let Answer { status, kind, body } = self;
        let len = body.len();
        let mut text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        if with_body {
            text.push_str(body);
        }
        Arc::from(text.into_bytes())
    }
}

fn answer(wanted: Wanted, found: &Found, draining: bool) -> Answer {
    match (wanted, found) {
        (Wanted::Health, Ok(_)) if draining => {
            Answer { status: "503 Service Unavailable", kind: PLAIN, body: "draining\n".into() }
        }
        (_, Err(why)) => Answer {
            status: "503 Service Unavailable",
            kind: PLAIN,
            body: Arc::from(format!("{why}\n")),
        },
        (Wanted::Health, Ok(_)) => Answer { status: "200 OK", kind: PLAIN, body: "ok\n".into() },
        (Wanted::Metrics { open: true }, Ok(text)) => {
            Answer { status: "200 OK", kind: OPEN_METRICS, body: Arc::clone(text) }
        }
        (Wanted::Metrics { open: false }, Ok(text)) => Answer {
            status: "200 OK",
            kind: CLASSIC,
            body: Arc::from(clearway_host::classic_metrics(text)),
        },
    }
}
