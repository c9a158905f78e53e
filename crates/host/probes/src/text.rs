//! A text in memory of the one who tells it.

use std::fmt::{Display, Write};

/// Bytes of a text with the zero behind it: what `str()` of bpftrace reads unless it is told to
/// read more.
const ROOM: usize = 64;

/// A text that ends with a zero, cut where it is longer than a tracer reads.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    bytes: [u8; ROOM],
    len: usize,
}

impl Text {
    /// What `what` displays.
    pub fn of(what: impl Display) -> Text {
        let mut text = Text { bytes: [0; ROOM], len: 0 };
        // It takes whatever comes; what has no room is cut.
        let _ = write!(text, "{what}");
        text
    }

    /// What `what` displays; `-` for nothing.
    pub fn of_any(what: Option<impl Display>) -> Text {
        what.map_or_else(|| Text::of("-"), Text::of)
    }

    /// Where it lies.
    pub(crate) fn address(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let room = ROOM - 1 - self.len;
        let mut len = part.len().min(room);
        while !part.is_char_boundary(len) {
            len -= 1;
        }
        self.bytes[self.len..self.len + len].copy_from_slice(&part.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}
