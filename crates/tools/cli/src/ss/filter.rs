//! Which sockets are meant: the filters of ss(8).

use std::net::{IpAddr, SocketAddr};

use clearway_wire::{Addr, Cidr};

use super::line::Services;
use super::socket::Socket;

/// What a socket must be.
#[derive(Debug)]
pub(super) struct Filter {
    /// None: all.
    states: Option<Vec<&'static str>>,
    excluded: Vec<&'static str>,
    expression: Option<Expression>,
}

#[derive(Debug)]
enum Expression {
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Host(Side, Compare, Host),
    Port(Side, Compare, u16),
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Local,
    Remote,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    Differs,
    Greater,
    Less,
    AtLeast,
    AtMost,
}

/// An address or prefix, a port, or both.
#[derive(Debug)]
struct Host {
    net: Option<Cidr>,
    port: Option<u16>,
}

const CONNECTED: &[&str] = &[
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "LAST-ACK",
    "CLOSING",
    "TIME-WAIT",
];

/// Names of states, and what each stands for.
const STATES: &[(&str, &[&str])] = &[
    ("connected", CONNECTED),
    (
        "synchronized",
        &[
            "ESTAB",
            "SYN-RECV",
            "FIN-WAIT-1",
            "FIN-WAIT-2",
            "CLOSE-WAIT",
            "LAST-ACK",
            "CLOSING",
            "TIME-WAIT",
        ],
    ),
    ("listening", &["LISTEN"]),
    ("listen", &["LISTEN"]),
    ("established", &["ESTAB"]),
    ("estab", &["ESTAB"]),
    ("syn-sent", &["SYN-SENT"]),
    ("syn-recv", &["SYN-RECV"]),
    ("fin-wait-1", &["FIN-WAIT-1"]),
    ("fin-wait-2", &["FIN-WAIT-2"]),
    ("time-wait", &["TIME-WAIT"]),
    ("close-wait", &["CLOSE-WAIT"]),
    ("last-ack", &["LAST-ACK"]),
    ("closing", &["CLOSING"]),
    ("closed", &["UNCONN"]),
    ("unconnected", &["UNCONN"]),
];

fn states_of(name: &str) -> Result<Option<&'static [&'static str]>, String> {
    if name == "all" {
        return Ok(None);
    }
    match STATES.iter().find(|(known, _)| *known == name) {
        Some((_, states)) => Ok(Some(states)),
        None => {
            let known: Vec<&str> = STATES.iter().map(|(known, _)| *known).collect();
            Err(format!("there is no state {name:?}; states are: all, {}", known.join(", ")))
        }
    }
}

impl Filter {
    /// Reads the words of a command line. `Err` says what is wrong.
    pub(super) fn parse(words: &[String], services: &Services) -> Result<Filter, String> {
        let tokens = tokens(words);
        let mut left = Tokens { tokens: &tokens, services };
        let mut filter = Filter { states: None, excluded: Vec::new(), expression: None };
        while let Some(word @ ("state" | "exclude")) = left.next_is() {
            left.take();
            let name = left
                .take()
                .ok_or_else(|| format!("the name of a state is missing after {word:?}"))?;
            match (word, states_of(&name.to_ascii_lowercase())?) {
                ("state", Some(states)) => filter.states.get_or_insert_default().extend(states),
                ("state", None) => filter
                    .states
                    .get_or_insert_default()
                    .extend(CONNECTED.iter().chain(&["LISTEN", "UNCONN"])),
                (_, Some(states)) => filter.excluded.extend(states),
                (_, None) => filter.states = Some(Vec::new()),
            }
        }
        if left.next_is().is_some() {
            filter.expression = Some(left.either()?);
        }
        match left.take() {
            None => Ok(filter),
            Some(word) => Err(format!("{word:?} is not expected there")),
        }
    }

    pub(super) fn fits(&self, socket: &Socket) -> bool {
        self.states.as_ref().is_none_or(|states| states.contains(&socket.state))
            && !self.excluded.contains(&socket.state)
            && self.expression.as_ref().is_none_or(|expression| expression.fits(socket))
    }
}

/// Words, with parentheses and exclamation marks as words of their own.
fn tokens(words: &[String]) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in words.iter().flat_map(|word| word.split_whitespace()) {
        let mut rest = word;
        while let Some(at) = rest.find(['(', ')', '!']) {
            // `!=` compares.
            if rest[at..].starts_with("!=") {
                break;
            }
            if at > 0 {
                tokens.push(rest[..at].to_owned());
            }
            tokens.push(rest[at..=at].to_owned());
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            tokens.push(rest.to_owned());
        }
    }
    tokens
}

struct Tokens<'a> {
    tokens: &'a [String],
    services: &'a Services,
}

impl<'a> Tokens<'a> {
    fn next_is(&self) -> Option<&'a str> {
        self.tokens.first().map(String::as_str)
    }

    fn take(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn took(&mut self, words: &[&str]) -> bool {
        let is_one = self.next_is().is_some_and(|word| words.contains(&word));
        if is_one {
            self.take();
        }
        is_one
    }

    fn either(&mut self) -> Result<Expression, String> {
        let mut left = self.both()?;
        while self.took(&["or", "||", "|"]) {
            left = Expression::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expression, String> {
        let mut left = self.one()?;
        loop {
            let said = self.took(&["and", "&&", "&"]);
            // What stands side by side holds together.
            if !said
                && !matches!(
                    self.next_is(),
                    Some("not" | "!" | "(" | "src" | "dst" | "sport" | "dport")
                )
            {
                return Ok(left);
            }
            left = Expression::And(Box::new(left), Box::new(self.one()?));
        }
    }

    fn one(&mut self) -> Result<Expression, String> {
        if self.took(&["not", "!"]) {
            return Ok(Expression::Not(Box::new(self.one()?)));
        }
        if self.took(&["("]) {
            let inner = self.either()?;
            return if self.took(&[")"]) { Ok(inner) } else { Err("a ) is missing".into()) };
        }
        let word = self
            .take()
            .ok_or("the filter ends where src, dst, sport, dport, not or ( is expected")?;
        match word {
            "src" => self.host(Side::Local),
            "dst" => self.host(Side::Remote),
            "sport" => self.port(Side::Local),
            "dport" => self.port(Side::Remote),
            _ => Err(format!("{word:?} is none of src, dst, sport, dport, not, (")),
        }
    }

    fn compare(&mut self) -> Option<Compare> {
        let compare = match self.next_is()? {
            "=" | "==" | "eq" => Compare::Equal,
            "!=" | "ne" | "neq" => Compare::Differs,
            ">" | "gt" => Compare::Greater,
            "<" | "lt" => Compare::Less,
            ">=" | "ge" | "geq" => Compare::AtLeast,
            "<=" | "le" | "leq" => Compare::AtMost,
            _ => return None,
        };
        self.take();
        Some(compare)
    }

    fn host(&mut self, side: Side) -> Result<Expression, String> {
        let compare = self.compare().unwrap_or(Compare::Equal);
        if !matches!(compare, Compare::Equal | Compare::Differs) {
            return Err("addresses are compared with = and != only".into());
        }
        let word = self.take().ok_or("an address is missing after src or dst")?;
        Ok(Expression::Host(side, compare, host(word, self.services)?))
    }

    fn port(&mut self, side: Side) -> Result<Expression, String> {
        let compare = self.compare().unwrap_or(Compare::Equal);
        let word = self.take().ok_or("a port is missing after sport or dport, such as :80")?;
        let port = port(word.strip_prefix(':').unwrap_or(word), self.services)?;
        Ok(Expression::Port(side, compare, port))
    }
}

fn port(text: &str, services: &Services) -> Result<u16, String> {
    let port = text.parse().ok().or_else(|| services.number(text));
    port.ok_or_else(|| format!("{text:?} is no port, and /etc/services does not name it"))
}

/// `10.0.0.1`, `10.0.0.0/8`, `10.0.0.1:80`, `[fd00::1]:80`, `fd00::/8`, `:80`, `*`.
fn host(text: &str, services: &Services) -> Result<Host, String> {
    let wrong = || {
        format!(
            "{text:?} is no address, such as 10.0.0.1, 10.0.0.0/8, 10.0.0.1:80, [fd00::1]:80 or :80"
        )
    };
    let (net, tail) = if let Some(rest) = text.strip_prefix('[') {
        let (inner, tail) = rest.split_once(']').ok_or_else(wrong)?;
        (inner, tail.strip_prefix(':'))
    } else if text.matches(':').count() == 1 {
        let (net, tail) = text.split_once(':').ok_or_else(wrong)?;
        (net, Some(tail))
    } else {
        (text, None)
    };
    let net = match net {
        "" | "*" => None,
        _ if net.contains('/') => Some(net.parse::<Cidr>().map_err(|_| wrong())?),
        _ => {
            let addr: IpAddr = net.parse().map_err(|_| wrong())?;
            let length = if addr.is_ipv4() { 32 } else { 128 };
            Some(Cidr::new(Addr::from(addr), length).ok_or_else(wrong)?)
        }
    };
    let port = match tail {
        None | Some("*") => None,
        Some(tail) => Some(port(tail, services)?),
    };
    Ok(Host { net, port })
}

fn side(socket: &Socket, side: Side) -> Option<SocketAddr> {
    match side {
        Side::Local => socket.local,
        Side::Remote => socket.remote,
    }
}

impl Expression {
    fn fits(&self, socket: &Socket) -> bool {
        match self {
            Expression::Not(inner) => !inner.fits(socket),
            Expression::And(left, right) => left.fits(socket) && right.fits(socket),
            Expression::Or(left, right) => left.fits(socket) || right.fits(socket),
            Expression::Host(which, compare, host) => {
                let is_it = side(socket, *which).is_some_and(|addr| host.holds(addr));
                is_it == (*compare == Compare::Equal)
            }
            Expression::Port(which, compare, port) => {
                let found = side(socket, *which).map_or(0, |addr| addr.port());
                match compare {
                    Compare::Equal => found == *port,
                    Compare::Differs => found != *port,
                    Compare::Greater => found > *port,
                    Compare::Less => found < *port,
                    Compare::AtLeast => found >= *port,
                    Compare::AtMost => found <= *port,
                }
            }
        }
    }
}

impl Host {
    fn holds(&self, addr: SocketAddr) -> bool {
        self.net.as_ref().is_none_or(|net| net.contains(&Addr::from(addr.ip())))
            && self.port.is_none_or(|port| port == addr.port())
    }
}
