//! Packet captures in the pcapng format (draft-ietf-opsawg-pcapng), with nanoseconds and, where the
//! simulator has something to say about a packet, a comment.

use std::io::{self, Write};

use clearway_base::Instant;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;

/// What the frames of an interface begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet = 1,
    /// An IPv4 or IPv6 header.
    Raw = 101,
}

/// Writes a capture.
pub struct Capture<W: Write> {
    out: W,
}

impl<W: Write> Capture<W> {
    /// Begins a capture of packets on `interfaces`; packets name theirs by place.
    pub fn begin(mut out: W, interfaces: &[(String, LinkType)]) -> io::Result<Capture<W>> {
        let mut body = Vec::new();
        body.extend(BYTE_ORDER.to_le_bytes());
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend((-1i64).to_le_bytes());
        block(&mut out, SECTION_HEADER, &body)?;
        for (name, link) in interfaces {
            let mut body = Vec::new();
            body.extend((*link as u16).to_le_bytes());
            body.extend(0u16.to_le_bytes());
            body.extend(0u32.to_le_bytes());
            option(&mut body, OPTION_IF_NAME, name.as_bytes());
            option(&mut body, OPTION_IF_TSRESOL, &[9]);
            option(&mut body, OPTION_END, &[]);
            block(&mut out, INTERFACE, &body)?;
        }
        Ok(Capture { out })
    }

    /// Adds a packet.
    pub fn packet(
        &mut self,
        interface: u32,
        at: Instant,
        bytes: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        let ns = at.as_nanos();
        let mut body = Vec::with_capacity(bytes.len() + 64);
        body.extend(interface.to_le_bytes());
        body.extend(((ns >> 32) as u32).to_le_bytes());
        body.extend((ns as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        padded(&mut body, bytes);
        if !comment.is_empty() {
            option(&mut body, OPTION_COMMENT, comment.as_bytes());
            option(&mut body, OPTION_END, &[]);
        }
        block(&mut self.out, ENHANCED_PACKET, &body)
    }

    /// Writes out what waits, and gives the writer back.
    pub fn end(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    // The length stands before and behind the body, and counts type and both lengths.
    let len = (body.len() as u32 + 12).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&len)?;
    out.write_all(body)?;
    out.write_all(&len)
}

#[cfg(test)]
mod tests;
