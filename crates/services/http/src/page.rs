//! Responses as bytes: the fixed page, made once and sent in one piece, and the heads of all
//! others.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use crate::body;

/// Pages up to this length are kept whole in memory; longer ones are made piece by piece.
pub const MAX_WHOLE: u64 = 1 << 20;

/// What a status code is called (RFC 9110 15).
pub const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// How the connection goes on, as the `Connection` field says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// HTTP/1.1 stays open: nothing needs to be said.
    Implied,
    /// An HTTP/1.0 client asked to stay.
    KeepAlive,
    /// The connection ends after this response.
    Close,
}

impl Persistence {
    /// For a request of this version that may stay or not.
    pub fn of(http11: bool, keep_alive: bool) -> Persistence {
        match (keep_alive, http11) {
            (false, _) => Persistence::Close,
            (true, true) => Persistence::Implied,
            (true, false) => Persistence::KeepAlive,
        }
    }

    const fn line(self) -> &'static str {
        match self {
            Persistence::Implied => "",
            Persistence::KeepAlive => "Connection: keep-alive\r\n",
            Persistence::Close => "Connection: close\r\n",
        }
    }
}

/// Length of a date in its one form that is to be sent, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110
/// 5.6.7).
const DATE_LEN: usize = 29;

/// The date of the moment in text.
#[derive(Clone)]
pub struct Date {
    text: [u8; DATE_LEN],
}

impl Date {
    /// `unix_seconds` after the start of 1970.
    pub fn new(unix_seconds: u64) -> Date {
        // The formatter knows the years up to 9999 and no more.
        let time = UNIX_EPOCH + Duration::from_secs(unix_seconds.min(253_402_300_799));
        let mut text = [b' '; DATE_LEN];
        for (to, from) in text.iter_mut().zip(httpdate::fmt_http_date(time).bytes()) {
            *to = from;
        }
        Date { text }
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.text).unwrap_or_default()
    }
}

/// Head of a response, from `HTTP/1.1` to the empty line. `fields` are whole lines, each with its
/// CRLF.
pub fn head(
    status: u16,
    date: &Date,
    persistence: Persistence,
    content_length: u64,
    fields: &str,
) -> Vec<u8> {
    let mut text = String::with_capacity(192 + fields.len());
    let _ = write!(
        text,
        "HTTP/1.1 {status} {}\r\nDate: {}\r\nServer: clearway\r\n",
        reason(status),
        date.as_str()
    );
    // RFC 9110 8.6: 304 describes the length of what is not sent; it is left out.
    if status != 304 {
        let _ = write!(text, "Content-Length: {content_length}\r\n");
    }
    let _ = write!(text, "{}{fields}\r\n", persistence.line());
    text.into_bytes()
}

/// A response that says what is wrong in a line of text. HEAD gets the head alone.
pub fn error(
    status: u16,
    date: &Date,
    persistence: Persistence,
    is_head: bool,
    fields: &str,
) -> Vec<u8> {
    let body = format!("{status} {}\n", reason(status));
    let all_fields = format!("Content-Type: text/plain; charset=utf-8\r\n{fields}");
    let mut bytes = head(status, date, persistence, body.len() as u64, &all_fields);
    if !is_head {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

/// The fixed page: `len` bytes of text.
pub struct Page {
    len: u64,
    // One for each persistence; head and, when the page is not too long, body.
    whole: [Vec<u8>; 3],
    head_len: [usize; 3],
    date_at: usize,
}

impl Page {
    /// The page of `len` bytes at this date.
    pub fn new(len: u64, date: &Date) -> Page {
        let kinds = [Persistence::Implied, Persistence::KeepAlive, Persistence::Close];
        let mut whole =
            kinds.map(|p| head(200, date, p, len, "Content-Type: text/plain; charset=utf-8\r\n"));
        let head_len = [whole[0].len(), whole[1].len(), whole[2].len()];
        if len <= MAX_WHOLE {
            for bytes in &mut whole {
                let from = bytes.len();
                bytes.resize(from + len as usize, 0);
                body::text(0, &mut bytes[from..]);
            }
        }
        Page { len, whole, head_len, date_at: "HTTP/1.1 200 OK\r\nDate: ".len() }
    }

    /// Writes another date into the heads, in place.
    pub fn set_date(&mut self, date: &Date) {
        for bytes in &mut self.whole {
            if let Some(text) = bytes.get_mut(self.date_at..self.date_at + DATE_LEN) {
                text.copy_from_slice(&date.text);
            }
        }
    }

    /// Bytes of the body.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a page without a body.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The head, and behind it the body when the page is short enough to be kept whole.
    #[inline]
    pub fn bytes(&self, persistence: Persistence) -> &[u8] {
        &self.whole[persistence as usize]
    }

    /// Bytes of the head.
    #[inline]
    pub fn head_len(&self, persistence: Persistence) -> usize {
        self.head_len[persistence as usize]
    }
}

#[cfg(test)]
mod tests;
