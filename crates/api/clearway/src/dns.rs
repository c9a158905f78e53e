//! Names of hosts, asked of a server of the Domain Name System over the stack's own UDP (RFC 1035).
//!
//! A stub: the server does the searching (RFC 1034 5.3.1). Questions are sent again when no answer
//! comes, and an answer counts only from the server that was asked, to the question that was asked,
//! with its number (RFC 5452 9.1). What does not fit a datagram is refused, not asked again over
//! TCP.

use std::io::Read as _;

use clearway_base::Duration;
use clearway_proto::UdpError;
use clearway_wire::{Addr, Endpoint};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};

use crate::services::{Services, Socket};

/// How often a question is sent.
const TRIES: u32 = 4;

/// How long an answer is waited for, the first time; twice as long each further time.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// Links of a chain of aliases that are followed.
const ALIASES: usize = 16;

/// Which addresses are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4 (A).
    V4,
    /// IPv6 (AAAA).
    V6,
}

/// Why a name has no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DnsError {
    /// It is no name: a label is empty or longer than 63 bytes, or all of it longer than 255.
    #[error("{0:?} is no name of a host: labels of 1 to 63 bytes between dots, 255 bytes at most")]
    BadName(String),
    /// There is no such name (NXDOMAIN).
    #[error("there is no name {0}")]
    NoSuchName(String),
    /// The name is there, and has no address of this family.
    #[error("{0} has no address of the family that was asked for")]
    NoAddress(String),
    /// The server refuses or fails.
    #[error("the server answers {0} for {1}")]
    Refused(String, String),
    /// The answer did not fit a datagram.
    #[error("the answer for {0} does not fit a datagram")]
    Truncated(String),
    /// No answer came.
    #[error("no answer for {0} from the server")]
    NoAnswer(String),
    /// The question could not be sent.
    #[error("the question cannot be sent: {0:?}")]
    Unsent(UdpError),
    /// The system's random source cannot be read, and numbers that can be guessed help who forges
    /// answers.
    #[error("cannot read the system's random source")]
    NoRandom,
}

impl Services {
    /// Asks the server for the addresses of a name; `then` hears them, and may connect to one
    /// ([`Socket::connect`]). The socket has a port of its own, and is asked for this name alone.
    #[must_use]
    pub fn lookup<F>(self, server: Endpoint, name: &str, family: Family, then: F) -> Services
    where
        F: FnOnce(Result<Vec<Addr>, DnsError>, &mut Socket<'_>) + 'static,
    {
        let name = name.to_owned();
        let (mut then, mut asked) = (Some(then), None);
        self.udp(0, move |socket| {
            if then.is_none() {
                return;
            }
            let done = match &mut asked {
                None => Lookup::new(server, &name, family).and_then(|lookup| {
                    let asked = asked.insert(lookup);
                    asked.ask(socket).map(|()| None)
                }),
                Some(lookup) => lookup.go_on(socket),
            };
            // None of it is over while there is neither an answer nor an error.
            if let Some(result) = done.transpose() {
                if let Some(then) = then.take() {
                    then(result, socket);
                }
            }
        })
    }
}

/// A question that was not answered yet.
struct Lookup {
    server: Endpoint,
    name: String,
    family: Family,
    id: u16,
    question: Vec<u8>,
    tries: u32,
    due: clearway_base::Instant,
}

impl Lookup {
    fn new(server: Endpoint, name: &str, family: Family) -> Result<Lookup, DnsError> {
        let mut id = [0; 2];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut id))
            .map_err(|_| DnsError::NoRandom)?;
        let id = u16::from_be_bytes(id);
        let question = question(id, name, family)?;
        let (name, tries) = (name.to_owned(), 0);
        let due = clearway_base::Instant::ZERO;
        Ok(Lookup { server, name, family, id, question, tries, due })
    }

    fn ask(&mut self, socket: &mut Socket<'_>) -> Result<(), DnsError> {
        match socket.send(self.server, None, &self.question) {
            // The next try comes, as if it had been lost.
            Ok(()) | Err(UdpError::Full) => {}
            Err(why) => return Err(DnsError::Unsent(why)),
        }
        let patience = Duration::from_nanos(PATIENCE.as_nanos() << self.tries);
        self.tries += 1;
        self.due = socket.now() + patience;
        socket.wake_at(self.due);
        Ok(())
    }

    fn go_on(&mut self, socket: &mut Socket<'_>) -> Result<Option<Vec<Addr>>, DnsError> {
        while let Some((from, _, bytes)) = socket.recv() {
            if from == self.server {
                if let Some(result) = answer(&bytes, self.id, &self.name, self.family) {
                    return result.map(Some);
                }
            }
        }
        if socket.now() < self.due {
            return Ok(None);
        }
        if self.tries == TRIES {
            return Err(DnsError::NoAnswer(self.name.clone()));
        }
        self.ask(socket).map(|()| None)
    }
}

fn question(id: u16, name: &str, family: Family) -> Result<Vec<u8>, DnsError> {
    let bad = || DnsError::BadName(name.to_owned());
    let plain = name.strip_suffix('.').unwrap_or(name);
    let fits = plain.split('.').all(|label| (1..=63).contains(&label.len()));
    if !fits || plain.len() > 253 {
        return Err(bad());
    }
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let kind = if family == Family::V4 { TYPE::A } else { TYPE::AAAA };
    let name = Name::new(plain).map_err(|_| bad())?;
    packet.questions.push(Question::new(name, kind.into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().map_err(|_| bad())
}

/// What the answer says; None for one that belongs to another question.
fn answer(
    bytes: &[u8],
    id: u16,
    name: &str,
    family: Family,
) -> Option<Result<Vec<Addr>, DnsError>> {
    let packet = Packet::parse(bytes).ok()?;
    let kind = if family == Family::V4 { TYPE::A } else { TYPE::AAAA };
    let plain = name.strip_suffix('.').unwrap_or(name);
    let asked = packet.questions.first()?;
    let is_ours = packet.id() == id
        && packet.has_flags(PacketFlag::RESPONSE)
        && asked.qname.to_string().eq_ignore_ascii_case(plain)
        && asked.qtype == kind.into();
    if !is_ours {
        return None;
    }
    let name = || plain.to_owned();
    Some(match packet.rcode() {
        RCODE::NoError if packet.has_flags(PacketFlag::TRUNCATION) => {
            Err(DnsError::Truncated(name()))
        }
        RCODE::NoError => match addresses(&packet, plain, family) {
            found if found.is_empty() => Err(DnsError::NoAddress(name())),
            found => Ok(found),
        },
        RCODE::NameError => Err(DnsError::NoSuchName(name())),
        other => Err(DnsError::Refused(format!("{other:?}"), name())),
    })
}

/// The addresses of the name, and of what it is an alias of (RFC 1034 3.6.2).
fn addresses(packet: &Packet<'_>, name: &str, family: Family) -> Vec<Addr> {
    let mut name = name.to_owned();
    for _ in 0..ALIASES {
        let mut found = Vec::new();
        let mut alias = None;
        for record in &packet.answers {
            if !record.name.to_string().eq_ignore_ascii_case(&name) {
                continue;
            }
            match (&record.rdata, family) {
                (RData::A(a), Family::V4) => found.push(Addr::v4(a.address.to_be_bytes())),
                (RData::AAAA(a), Family::V6) => {
                    found.push(std::net::IpAddr::V6(a.address.into()).into());
                }
                (RData::CNAME(other), _) => alias = Some(other.0.to_string()),
                _ => {}
            }
        }
        match alias {
            Some(other) if found.is_empty() => name = other,
            _ => return found,
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
