//! The file that an application is configured by, in the words of VPP's `vcl.conf`:
//!
//! ```text
//! vcl {
//!   rx-fifo-size 4000000
//!   tx-fifo-size 4000000
//!   namespace-id server
//!   namespace-secret 1234
//!   app-scope-global
//!   app-socket-api /var/run/vpp/app_ns_sockets/server
//! }
//! ```
//!
//! Words of our own: `wildcard clearway|kernel`, `kernel ADDRESS[/LENGTH]`,
//! `interfaces both|clearway|kernel`. `#` begins a comment. Line ends mean no more than spaces.

use std::net::IpAddr;

use clearway_shm::attach_socket::Secret;

use super::{AppConfig, DnsOf, ShownInterfaces, Wildcard};

/// What cannot be followed, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// From 1.
    pub(super) line: usize,
    pub(super) why: String,
}

/// Words that may stand in the braces, and what follows them.
const WORDS: [(&str, &str); 11] = [
    ("rx-fifo-size", "a number of bytes"),
    ("tx-fifo-size", "a number of bytes"),
    ("namespace-id", "a name"),
    ("namespace-secret", "a secret"),
    ("app-scope-global", ""),
    ("app-scope-local", ""),
    ("app-socket-api", "a path"),
    ("wildcard", "clearway or kernel"),
    ("kernel", "an address, or a prefix as 10.0.0.0/8"),
    ("interfaces", "both, clearway or kernel"),
    ("dns", "clearway or system"),
];

/// The furthest that a word may be from the one that is proposed in its place.
const NEAR: usize = 4;

/// Reads the file's text into `config`.
pub(super) fn parse(text: &str, config: &mut AppConfig) -> Result<(), Wrong> {
    let mut words = Words { words: words(text), at: 0, last: text.lines().count().max(1) };
    if words.next() != Some("vcl") {
        return Err(words.wrong("the file begins with `vcl {`".into()));
    }
    if words.next() != Some("{") {
        return Err(words.wrong("after `vcl` comes `{`".into()));
    }
    loop {
        let Some(word) = words.next() else { return Err(words.wrong("`}` is missing".into())) };
        if word == "}" {
            break;
        }
        setting(word, &mut words, config)?;
    }
    match words.next() {
        None => Ok(()),
        Some(word) => Err(words.wrong(format!("`{word}` stands behind the end of `vcl {{ … }}`"))),
    }
}

fn setting(word: &str, words: &mut Words<'_>, config: &mut AppConfig) -> Result<(), Wrong> {
    match word {
        "rx-fifo-size" => config.rx_fifo = words.value(word, |value| value.parse().ok())?,
        "tx-fifo-size" => config.tx_fifo = words.value(word, |value| value.parse().ok())?,
        "namespace-id" => config.namespace = words.value(word, |value| Some(value.into()))?,
        "namespace-secret" => {
            config.secret = Some(words.value(word, |value| Some(Secret(value.into())))?)
        }
        // What a program reaches is for its namespace's table to say, whatever the scope.
        "app-scope-global" => {}
        "app-scope-local" => config.cut_through = true,
        "app-socket-api" => config.socket = Some(words.value(word, |value| Some(value.into()))?),
        "wildcard" => config.wildcard = words.value(word, wildcard)?,
        "kernel" => config.kernel.push(words.value(word, prefix)?),
        "interfaces" => config.interfaces = words.value(word, ShownInterfaces::read)?,
        "dns" => config.dns = words.value(word, DnsOf::read)?,
        _ => {
            let near = WORDS.iter().map(|(known, _)| (distance(known, word), known)).min();
            return Err(words.wrong(match near {
                Some((distance, near)) if distance <= NEAR => {
                    format!("`{word}` is not known; `{near}` is")
                }
                _ => {
                    let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
                    format!("`{word}` is not known; these are: {}", known.join(", "))
                }
            }));
        }
    }
    Ok(())
}

fn wildcard(value: &str) -> Option<Wildcard> {
    match value {
        "clearway" => Some(Wildcard::Clearway),
        "kernel" => Some(Wildcard::Kernel),
        _ => None,
    }
}

fn prefix(value: &str) -> Option<(IpAddr, u8)> {
    let (address, len) =
        value.split_once('/').map_or((value, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Some(most), |len| len.parse().ok())?;
    (len <= most).then_some((address, len))
}

/// Words with their lines; braces are words, comments are none.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for word in line.split_whitespace() {
            // A brace may stand close to a word.
            let mut rest = word;
            while let Some(brace) = rest.find(['{', '}']) {
                let (before, after) = rest.split_at(brace);
                found.extend((!before.is_empty()).then_some((index + 1, before)));
                found.push((index + 1, &after[..1]));
                rest = &after[1..];
            }
            found.extend((!rest.is_empty()).then_some((index + 1, rest)));
        }
    }
    found
}

struct Words<'a> {
    words: Vec<(usize, &'a str)>,
    at: usize,
    /// The last line.
    last: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (_, word) = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// What follows `word`.
    fn value<T>(&mut self, word: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Wrong> {
        let expected =
            WORDS.iter().find(|(known, _)| *known == word).map_or("", |(_, expected)| expected);
        let Some(value) = self.next().filter(|value| !matches!(*value, "{" | "}")) else {
            return Err(self.wrong(format!("after `{word}` comes {expected}")));
        };
        read(value)
            .ok_or_else(|| self.wrong(format!("after `{word}` comes {expected}, not `{value}`")))
    }

    /// An error at the last word.
    fn wrong(&self, why: String) -> Wrong {
        let line = self.words.get(self.at.saturating_sub(1)).map_or(self.last, |(line, _)| *line);
        Wrong { line, why }
    }
}

/// How many letters must be put in, taken out or exchanged to make one word of the other
/// (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let exchanged = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
