//! The head of a request, read from bytes that may arrive in any pieces.
//!
//! [`Parser::advance`] is given the bytes from the start of the request, as many as there are, and
//! remembers how far it came. It keeps offsets only, so the caller may move the bytes between
//! calls. Nothing is copied and nothing allocated.

use memchr::memchr;

/// The longest head (request line and header section) that is taken, in bytes; also stated in RFC
/// 9112 3 as at least 8,000 octets for the request line.
pub const MAX_HEAD: usize = 8_192;

/// The most header fields that are taken.
pub const MAX_FIELDS: u16 = 100;

/// A request method, as far as the server tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// A method that RFC 9110 or RFC 5789 defines and this server has no use for.
    Other,
}

/// Why a head is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reject {
    /// The grammar is broken (400).
    Malformed,
    /// The request line alone is over the limit (414, RFC 9112 3).
    TargetTooLong,
    /// The header section is over the limit (431, RFC 6585 5).
    HeadTooLarge,
    /// The body comes in chunks, and this server wants a length (411, RFC 9110 15.5.12).
    LengthRequired,
    /// An expectation other than 100-continue (417).
    ExpectationFailed,
    /// A method or a transfer coding that nobody here knows (501).
    NotImplemented,
    /// A major version other than 1 (505).
    Version,
}

impl Reject {
    /// The status code that says so.
    pub const fn status(self) -> u16 {
        match self {
            Reject::Malformed => 400,
            Reject::TargetTooLong => 414,
            Reject::HeadTooLarge => 431,
            Reject::LengthRequired => 411,
            Reject::ExpectationFailed => 417,
            Reject::NotImplemented => 501,
            Reject::Version => 505,
        }
    }
}

/// A piece of the head, by offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    start: u16,
    end: u16,
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        // Both are at most MAX_HEAD.
        Span { start: start as u16, end: end as u16 }
    }

    /// The bytes it stands for in `head`.
    pub fn of(self, head: &[u8]) -> &[u8] {
        head.get(usize::from(self.start)..usize::from(self.end)).unwrap_or_default()
    }
}

/// What the head of a request says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The request target as sent.
    pub target: Span,
    /// HTTP/1.1 or a later 1.x; false for HTTP/1.0.
    pub http11: bool,
    /// The connection stays open after the response.
    pub keep_alive: bool,
    /// Length of the body.
    pub content_length: Option<u64>,
    /// The client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// `Range`.
    pub range: Option<Span>,
    /// `If-Range`.
    pub if_range: Option<Span>,
    /// `If-None-Match`.
    pub if_none_match: Option<Span>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<Span>,
    /// Bytes of the head, the empty line at its end included.
    pub len: usize,
}

/// Reads one head. Start with `Parser::default()` for each request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    head: Head,
    // Start of the line that is being waited for.
    line: usize,
    // Bytes in which the end of that line was looked for already.
    scanned: usize,
    fields: u16,
    has_request_line: bool,
    hosts: u8,
    close: bool,
    stay: bool,
    transfer_encoding: Option<Reject>,
}

impl Parser {
    /// Goes on with `bytes`, which start at the first byte of the request and hold everything that
    /// was there at the last call. None: the head is not complete. The answer does not depend on
    /// how the bytes were cut into calls.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<Head>, Reject> {
        let seen = &bytes[..bytes.len().min(MAX_HEAD)];
        while let Some(found) = memchr(b'\n', &seen[self.scanned.min(seen.len())..]) {
            let end = self.scanned + found;
            let start = self.line;
            self.line = end + 1;
            self.scanned = end + 1;
            // RFC 9112 2.2: a lone LF may end a line too.
            let text_end = if end > start && seen[end - 1] == b'\r' { end - 1 } else { end };
            let line = &seen[start..text_end];
            if !self.has_request_line {
                // RFC 9112 2.2: empty lines before the request line are skipped; the length limit
                // bounds them.
                if !line.is_empty() {
                    self.request_line(line, start)?;
                    self.has_request_line = true;
                }
            } else if line.is_empty() {
                return self.finish().map(Some);
            } else {
                self.field(line, start)?;
            }
        }
        self.scanned = seen.len();
        if seen.len() == MAX_HEAD {
            return Err(if self.has_request_line {
                Reject::HeadTooLarge
            } else {
                Reject::TargetTooLong
            });
        }
        // Something that is not HTTP at all (a TLS hello, say) is told at its first byte, not when
        // its time has run out.
        match seen.get(self.line) {
            Some(&byte) if !self.has_request_line && !is_token(byte) && byte != b'\r' => {
                Err(Reject::Malformed)
            }
            _ => Ok(None),
        }
    }

    /// Whether any byte of a request has been seen.
    pub fn begun(&self) -> bool {
        self.scanned > 0
    }

    // RFC 9112 3: method SP request-target SP HTTP-version.
    fn request_line(&mut self, line: &[u8], start: usize) -> Result<(), Reject> {
        let method_end = memchr(b' ', line).ok_or(Reject::Malformed)?;
        let target_len = memchr(b' ', &line[method_end + 1..]).ok_or(Reject::Malformed)?;
        let target_end = method_end + 1 + target_len;
        let (method, target, version) =
            (&line[..method_end], &line[method_end + 1..target_end], &line[target_end + 1..]);
        if method.is_empty() || !method.iter().all(|&b| is_token(b)) {
            return Err(Reject::Malformed);
        }
        if target.is_empty() || !target.iter().all(|&b| (0x21..=0x7e).contains(&b)) {
            return Err(Reject::Malformed);
        }
        let http11 = match version {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', b'0'..=b'9'] => {
                if *major != b'1' {
                    return Err(Reject::Version);
                }
                // RFC 9110 2.5: a higher minor version is served as the highest that is known.
                true
            }
            _ => return Err(Reject::Malformed),
        };
        self.head.method = match method {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" | b"OPTIONS" | b"TRACE" | b"CONNECT" | b"PATCH" => Method::Other,
            _ => return Err(Reject::NotImplemented),
        };
        self.head.http11 = http11;
        self.head.target = Span::new(start + method_end + 1, start + target_end);
        Ok(())
    }

    // RFC 9112 5: field-name ":" OWS field-value OWS. A line that begins with white space
    // (obs-fold) has no token for a name and is refused.
    fn field(&mut self, line: &[u8], start: usize) -> Result<(), Reject> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(Reject::HeadTooLarge);
        }
        let colon = memchr(b':', line).ok_or(Reject::Malformed)?;
        let name = &line[..colon];
        if name.is_empty() || !name.iter().all(|&b| is_token(b)) {
            return Err(Reject::Malformed);
        }
        let raw = &line[colon + 1..];
        // RFC 9110 5.5: a field value holds no control characters but the tab.
        if raw.iter().any(|&b| (b < 0x20 && b != b'\t') || b == 0x7f) {
            return Err(Reject::Malformed);
        }
        let value = raw.trim_ascii();
        let lead = raw.len() - raw.trim_ascii_start().len();
        let from = start + colon + 1 + lead;
        let span = Span::new(from, from + value.len());
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.hosts = self.hosts.saturating_add(1),
            5 if name.eq_ignore_ascii_case(b"range") => self.head.range = Some(span),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Reject::ExpectationFailed);
                }
                self.head.expect_continue = true;
            }
            8 if name.eq_ignore_ascii_case(b"if-range") => self.head.if_range = Some(span),
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            13 if name.eq_ignore_ascii_case(b"if-none-match") => {
                self.head.if_none_match = Some(span)
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let chunked =
                    value.eq_ignore_ascii_case(b"chunked") && self.transfer_encoding.is_none();
                self.transfer_encoding =
                    Some(if chunked { Reject::LengthRequired } else { Reject::NotImplemented });
            }
            17 if name.eq_ignore_ascii_case(b"if-modified-since") => {
                self.head.if_modified_since = Some(span)
            }
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&b| b == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.stay |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    // RFC 9110 8.6: digits only; a repeated field is taken when it says the same.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        if value.is_empty() {
            return Err(Reject::Malformed);
        }
        let mut length = 0u64;
        for &digit in value {
            if !digit.is_ascii_digit() {
                return Err(Reject::Malformed);
            }
            length = length
                .checked_mul(10)
                .and_then(|l| l.checked_add(u64::from(digit - b'0')))
                .ok_or(Reject::Malformed)?;
        }
        match self.head.content_length {
            Some(before) if before != length => Err(Reject::Malformed),
            _ => {
                self.head.content_length = Some(length);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<Head, Reject> {
        // RFC 9112 3.2: exactly one Host field in HTTP/1.1; never more than one.
        if self.hosts > 1 || (self.head.http11 && self.hosts == 0) {
            return Err(Reject::Malformed);
        }
        if let Some(reject) = self.transfer_encoding {
            // RFC 9112 6.1 and 6.3: both framings at once is how requests are smuggled; HTTP/1.0
            // has no transfer codings.
            let smuggled = self.head.content_length.is_some() || !self.head.http11;
            return Err(if smuggled { Reject::Malformed } else { reject });
        }
        // RFC 9112 9.3.
        self.head.keep_alive = !self.close && (self.head.http11 || self.stay);
        self.head.expect_continue &= self.head.http11;
        self.head.len = self.line;
        Ok(self.head)
    }
}

// RFC 9110 5.6.2: tchar.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        table[i] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        i += 1;
    }
    table
};

#[inline]
fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

#[cfg(test)]
mod tests;
