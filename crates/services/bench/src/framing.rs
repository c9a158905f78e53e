//! Where one message of a stream ends and the next begins.

/// How to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Every message has so many bytes, at least one.
    Fixed(u32),
    /// Whatever arrives together is one message.
    Any,
    /// An HTTP request without a body: it ends with an empty line.
    HttpRequest,
    /// An HTTP answer: a head, and as many bytes behind it as its Content-Length says.
    HttpAnswer,
}

/// What was found in a piece of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Messages that ended in it.
    pub ended: u32,
    /// Bytes that were looked at; fewer than all only when as many messages ended as were asked
    /// for.
    pub used: usize,
    /// HTTP answers among them whose status is not 2xx.
    pub refused: u32,
}

/// A stream that cannot be cut into messages any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable(pub &'static str);

/// How far into a message a stream is. All zeros between two messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Partial(pub u32);

impl Framing {
    /// Looks for ends of requests in the next piece of a stream, at most `most` of them.
    #[inline]
    pub fn requests(self, partial: &mut Partial, bytes: &[u8], most: u32) -> Found {
        match self {
            Framing::Fixed(len) => fixed(len, partial, bytes, most),
            Framing::Any => {
                Found { ended: u32::from(!bytes.is_empty()), used: bytes.len(), refused: 0 }
            }
            Framing::HttpRequest | Framing::HttpAnswer => empty_lines(partial, bytes, most),
        }
    }
}

#[inline]
fn fixed(len: u32, partial: &mut Partial, bytes: &[u8], most: u32) -> Found {
    let len = len.max(1) as usize;
    let all = partial.0 as usize + bytes.len();
    if most == 0 {
        return Found::default();
    }
    // What is usual: one whole message.
    if all == len {
        partial.0 = 0;
        return Found { ended: 1, used: bytes.len(), refused: 0 };
    }
    let ended = (all / len).min(most as usize);
    let taken = if ended == most as usize { ended * len } else { all };
    let used = taken.saturating_sub(partial.0 as usize);
    partial.0 = (taken - ended * len) as u32;
    Found { ended: ended as u32, used, refused: 0 }
}

/// `partial` counts how much of `\r\n\r\n` was there at the end.
fn empty_lines(partial: &mut Partial, bytes: &[u8], most: u32) -> Found {
    let mut found = Found::default();
    // What is usual: a head that came whole and is the only one.
    if partial.0 == 0
        && most > 0
        && memchr::memmem::find(bytes, b"\r\n\r\n").is_some_and(|at| at + 4 == bytes.len())
    {
        return Found { ended: 1, used: bytes.len(), refused: 0 };
    }
    for &byte in bytes {
        if found.ended == most {
            return found;
        }
        found.used += 1;
        partial.0 = match (partial.0, byte) {
            (0 | 2, b'\r') => partial.0 + 1,
            (1, b'\n') => 2,
            (3, b'\n') => {
                found.ended += 1;
                0
            }
            (_, b'\r') => 1,
            _ => 0,
        };
    }
    found
}

/// The longest head of an answer that is read, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Cuts a client's streams into answers. One serves all connections of a core: what one of them
/// needs besides is in its [`Reading`].
#[derive(Debug)]
pub struct AnswerReader {
    framing: Framing,
    /// The last head that was read to its end, and what it said: servers say the same again and
    /// again.
    last_head: Vec<u8>,
    last: Head,
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    body_len: u64,
    refused: bool,
}

/// How far into an answer a connection is.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    partial: Partial,
    /// Bytes of the body that are missing.
    body_left: u64,
    /// The head as far as it has come, when it came in pieces.
    head: Option<Vec<u8>>,
}

impl AnswerReader {
    /// A reader for answers of this framing.
    pub fn new(framing: Framing) -> AnswerReader {
        AnswerReader { framing, last_head: Vec::new(), last: Head::default() }
    }

    /// Whether the next piece of a stream is one answer of a known length, neither more nor less:
    /// what is usual, and needs no reading.
    #[inline(always)]
    pub fn is_one(&self, reading: &Reading, bytes: &[u8]) -> bool {
        matches!(self.framing, Framing::Fixed(len) if len as usize == bytes.len())
            && reading.partial == Partial(0)
    }

    /// Looks for ends of answers in the next piece of a stream; all of it is used.
    #[inline(never)]
    pub fn read(&mut self, reading: &mut Reading, bytes: &[u8]) -> Result<Found, Unreadable> {
        match self.framing {
            Framing::HttpAnswer => self.http(reading, bytes),
            other => Ok(other.requests(&mut reading.partial, bytes, u32::MAX)),
        }
    }

    fn http(&mut self, reading: &mut Reading, mut bytes: &[u8]) -> Result<Found, Unreadable> {
        let mut found = Found { used: bytes.len(), ..Found::default() };
        while !bytes.is_empty() {
            if reading.body_left > 0 {
                let here = (bytes.len() as u64).min(reading.body_left);
                reading.body_left -= here;
                bytes = &bytes[here as usize..];
            } else {
                let Some((head, len)) = self.head(reading, bytes)? else { break };
                found.refused += u32::from(head.refused);
                reading.body_left = head.body_len;
                bytes = &bytes[len..];
            }
            found.ended += u32::from(reading.body_left == 0);
        }
        Ok(found)
    }

    /// The head that ends in `bytes`, and where; None when it does not, and then it is kept.
    fn head(
        &mut self,
        reading: &mut Reading,
        bytes: &[u8],
    ) -> Result<Option<(Head, usize)>, Unreadable> {
        if let Some(mut begun) = reading.head.take() {
            let before = begun.len();
            begun.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD)]);
            let Some(len) = end_of_head(&begun) else { return keep(reading, begun) };
            begun.truncate(len);
            self.learn(&begun)?;
            return Ok(Some((self.last, len - before)));
        }
        if !self.last_head.is_empty() && bytes.starts_with(&self.last_head) {
            return Ok(Some((self.last, self.last_head.len())));
        }
        let Some(len) = end_of_head(bytes) else { return keep(reading, bytes.to_vec()) };
        self.learn(&bytes[..len])?;
        Ok(Some((self.last, len)))
    }

    fn learn(&mut self, head: &[u8]) -> Result<(), Unreadable> {
        self.last = parse(head)?;
        self.last_head.clear();
        self.last_head.extend_from_slice(head);
        Ok(())
    }
}

fn keep(reading: &mut Reading, head: Vec<u8>) -> Result<Option<(Head, usize)>, Unreadable> {
    if head.len() > MAX_HEAD {
        return Err(Unreadable("the head of an answer is longer than 16 KiB"));
    }
    reading.head = Some(head);
    Ok(None)
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

fn parse(head: &[u8]) -> Result<Head, Unreadable> {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut words = lines.next().unwrap_or_default().split(|&byte| byte == b' ');
    if !words.next().is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return Err(Unreadable("an answer is no HTTP/1 answer"));
    }
    let refused = !words.next().is_some_and(|status| status.starts_with(b"2"));
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let len = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            let body_len = len.ok_or(Unreadable("the Content-Length of an answer is no number"))?;
            return Ok(Head { body_len, refused });
        }
    }
    Err(Unreadable(
        "an answer has no Content-Length, so that its end cannot be told; give its length with -l",
    ))
}

#[cfg(test)]
mod tests;
