//! What client and server say (RFC 8415 8 and 21): what we send, and what we read of what comes.

use clearway_wire::{Addr, Mac};

/// How many servers of names and domains of a message are kept; the others are left out.
const MOST: usize = 8;
/// The longest name of a server (RFC 8415 11.1: two bytes of type and 128 more).
const MAX_DUID: usize = 130;
/// The longest name of a domain (RFC 1035 2.3.4), as it is sent.
const MAX_NAME: usize = 255;

/// Options (RFC 8415 21, RFC 3646 3 and 4).
mod option {
    pub(super) const CLIENT: u16 = 1;
    pub(super) const SERVER: u16 = 2;
    pub(super) const IA_NA: u16 = 3;
    pub(super) const ADDRESS: u16 = 5;
    pub(super) const WANTED: u16 = 6;
    pub(super) const PREFERENCE: u16 = 7;
    pub(super) const ELAPSED: u16 = 8;
    pub(super) const STATUS: u16 = 13;
    pub(super) const RAPID_COMMIT: u16 = 14;
    pub(super) const DNS: u16 = 23;
    pub(super) const DOMAINS: u16 = 24;
    pub(super) const REFRESH: u16 = 32;
    pub(super) const SOL_MAX_RT: u16 = 82;
    pub(super) const INF_MAX_RT: u16 = 83;
}

/// What a message is (RFC 8415 7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Solicit = 1,
    Advertise = 2,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Reply = 7,
    Release = 8,
    Decline = 9,
    Information = 11,
}

/// Why what came is no message of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than the header.
    Short,
    /// Neither an Advertise nor a Reply, which are all that a client is told here.
    Kind,
    /// An option reaches beyond the end, or beyond the one that it is in.
    Option,
    /// An option has a value or a length that it cannot have.
    Value,
    /// The name of the server is missing.
    NoServer,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) kind: Kind,
    /// Names what is asked and answered; 24 bits.
    pub(crate) exchange: u32,
    pub(crate) mac: Mac,
    /// Hundredths of a second since it was asked first.
    pub(crate) elapsed: u16,
    /// Who is asked; None: whoever hears it.
    pub(crate) server: Option<&'a [u8]>,
    /// The address that it is about; the unspecified one where any is welcome. None: no address is
    /// asked for.
    pub(crate) address: Option<Addr>,
}

/// What a server gives for an address: itself, and how many seconds it is preferred and valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    pub(crate) addr: Addr,
    pub(crate) preferred: u32,
    pub(crate) valid: u32,
}

/// What a server says (RFC 8415 21.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Success,
    NoBinding,
    NotOnLink,
    UseMulticast,
    /// No address is free, or something else is wrong.
    Failed,
}

impl Status {
    fn of(code: u16) -> Status {
        match code {
            0 => Status::Success,
            3 => Status::NoBinding,
            4 => Status::NotOnLink,
            5 => Status::UseMulticast,
            _ => Status::Failed,
        }
    }
}

/// What a server said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) kind: Kind,
    pub(crate) exchange: u32,
    pub(crate) server: Vec<u8>,
    /// The client whom it is for, when it is said.
    pub(crate) client: Option<Vec<u8>>,
    pub(crate) preference: u8,
    pub(crate) rapid_commit: bool,
    /// Of the whole message, and of our identity association.
    pub(crate) status: Status,
    pub(crate) ia_status: Status,
    /// T1 and T2 of our association; 0: as we like.
    pub(crate) times: (u32, u32),
    /// Addresses of our association.
    pub(crate) given: Vec<Given>,
    pub(crate) dns: Vec<Addr>,
    pub(crate) domains: Vec<String>,
    pub(crate) refresh: Option<u32>,
    /// The longest waits for a Solicit and for an Information-Request, in seconds.
    pub(crate) longest: (Option<u32>, Option<u32>),
}

/// How servers know us: by our Ethernet address (DUID-LL, RFC 8415 11.4).
pub(crate) fn client_of(mac: Mac) -> [u8; 10] {
    let [a, b, c, d, e, f] = mac.0;
    [0, 3, 0, 1, a, b, c, d, e, f]
}

/// What our one identity association is called (RFC 8415 12): the same each time.
fn association(mac: Mac) -> [u8; 4] {
    let [_, _, c, d, e, f] = mac.0;
    [c, d, e, f]
}

fn put(out: &mut Vec<u8>, option: u16, value: &[u8]) {
    out.extend_from_slice(&option.to_be_bytes());
    // All that we say is shorter.
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

/// The message.
pub(crate) fn emit(ask: &Ask<'_>) -> Vec<u8> {
    let mut out = vec![ask.kind as u8];
    out.extend_from_slice(&ask.exchange.to_be_bytes()[1..]);
    put(&mut out, option::CLIENT, &client_of(ask.mac));
    if let Some(server) = ask.server {
        put(&mut out, option::SERVER, server);
    }
    put(&mut out, option::ELAPSED, &ask.elapsed.to_be_bytes());
    if let Some(addr) = ask.address {
        // T1 and T2 are for the server to say (RFC 8415 21.4).
        let mut ia = [&association(ask.mac)[..], &[0; 8]].concat();
        if !addr.is_unspecified() {
            put(&mut ia, option::ADDRESS, &[&addr.octets()[..], &[0; 8]].concat());
        }
        put(&mut out, option::IA_NA, &ia);
    }
    let wanted: &[u16] = match ask.kind {
        Kind::Solicit => &[option::DNS, option::DOMAINS, option::SOL_MAX_RT],
        Kind::Information => &[option::DNS, option::DOMAINS, option::REFRESH, option::INF_MAX_RT],
        Kind::Request | Kind::Renew | Kind::Rebind => &[option::DNS, option::DOMAINS],
        _ => &[],
    };
    if !wanted.is_empty() {
        let codes: Vec<u8> = wanted.iter().flat_map(|code| code.to_be_bytes()).collect();
        put(&mut out, option::WANTED, &codes);
    }
    if ask.kind == Kind::Solicit {
        put(&mut out, option::RAPID_COMMIT, &[]);
    }
    out
}

/// The options in `bytes`, or an error at the first that reaches beyond them.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let split = || {
            let (head, rest) = bytes.split_first_chunk::<4>()?;
            let [a, b, c, d] = *head;
            let (value, rest) = rest.split_at_checked(u16::from_be_bytes([c, d]).into())?;
            Some((u16::from_be_bytes([a, b]), value, rest))
        };
        Some(match split() {
            Some((code, value, rest)) => {
                bytes = rest;
                Ok((code, value))
            }
            None => {
                bytes = &[];
                Err(Malformed::Option)
            }
        })
    })
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map(|four| u32::from_be_bytes(*four)).ok_or(Malformed::Value)
}

fn status(value: &[u8]) -> Result<Status, Malformed> {
    let code = value.first_chunk::<2>().ok_or(Malformed::Value)?;
    Ok(Status::of(u16::from_be_bytes(*code)))
}

fn addr_at(bytes: &[u8]) -> Result<Addr, Malformed> {
    bytes.first_chunk::<16>().map(|octets| Addr::v6(*octets)).ok_or(Malformed::Value)
}

/// Reads what a server says to a client with this Ethernet address.
pub(crate) fn read(bytes: &[u8], mac: Mac) -> Result<Said, Malformed> {
    let (&[kind, a, b, c], rest) = bytes.split_first_chunk::<4>().ok_or(Malformed::Short)?;
    let kind = match kind {
        2 => Kind::Advertise,
        7 => Kind::Reply,
        _ => return Err(Malformed::Kind),
    };
    let mut said = Said {
        kind,
        exchange: u32::from_be_bytes([0, a, b, c]),
        server: Vec::new(),
        client: None,
        preference: 0,
        rapid_commit: false,
        status: Status::Success,
        ia_status: Status::Success,
        times: (0, 0),
        given: Vec::new(),
        dns: Vec::new(),
        domains: Vec::new(),
        refresh: None,
        longest: (None, None),
    };
    for option in options(rest) {
        let (code, value) = option?;
        match code {
            option::CLIENT => said.client = Some(value.to_vec()),
            option::SERVER if (3..=MAX_DUID).contains(&value.len()) => {
                said.server = value.to_vec();
            }
            option::SERVER => return Err(Malformed::Value),
            option::PREFERENCE => said.preference = *value.first().ok_or(Malformed::Value)?,
            option::RAPID_COMMIT => said.rapid_commit = true,
            option::STATUS => said.status = status(value)?,
            option::IA_NA if value.starts_with(&association(mac)) => read_ia(&mut said, value)?,
            option::DNS => {
                if value.is_empty() || value.len() % 16 != 0 {
                    return Err(Malformed::Value);
                }
                let servers = value.chunks_exact(16).filter_map(|octets| addr_at(octets).ok());
                let fit = |addr: &Addr| !addr.is_unspecified() && !addr.is_multicast();
                said.dns = servers.filter(fit).take(MOST).collect();
            }
            option::DOMAINS => said.domains = names(value)?,
            option::REFRESH => said.refresh = Some(word(value, 0)?),
            option::SOL_MAX_RT => said.longest.0 = Some(word(value, 0)?),
            option::INF_MAX_RT => said.longest.1 = Some(word(value, 0)?),
            _ => {}
        }
    }
    if said.server.is_empty() {
        return Err(Malformed::NoServer);
    }
    Ok(said)
}

/// Our identity association (RFC 8415 21.4).
fn read_ia(said: &mut Said, value: &[u8]) -> Result<(), Malformed> {
    said.times = (word(value, 4)?, word(value, 8)?);
    for option in options(value.get(12..).unwrap_or_default()) {
        match option? {
            (option::STATUS, value) => said.ia_status = status(value)?,
            (option::ADDRESS, value) if said.given.len() < MOST => {
                let addr = addr_at(value)?;
                let given = Given { addr, preferred: word(value, 16)?, valid: word(value, 20)? };
                // A status of its own says that it is none (RFC 8415 21.6).
                let mut is_good = true;
                for inner in options(value.get(24..).unwrap_or_default()) {
                    if let (option::STATUS, value) = inner? {
                        is_good &= status(value)? == Status::Success;
                    }
                }
                if is_good {
                    said.given.push(given);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A list of domains (RFC 8415 10, without compression). One that is no name of hosts is left out.
fn names(mut bytes: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (mut name, mut is_good, mut len) = (String::new(), true, 0);
        loop {
            let (&label, rest) = bytes.split_first().ok_or(Malformed::Value)?;
            len += 1 + usize::from(label);
            if label > 63 || len > MAX_NAME {
                return Err(Malformed::Value);
            }
            let (text, rest) = rest.split_at_checked(label.into()).ok_or(Malformed::Value)?;
            bytes = rest;
            if label == 0 {
                break;
            }
            is_good &= text.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'));
            if !name.is_empty() {
                name.push('.');
            }
            name.extend(text.iter().map(|c| char::from(*c)));
        }
        if is_good && !name.is_empty() && all.len() < MOST {
            all.push(name);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
