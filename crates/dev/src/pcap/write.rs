//! Writing pcapng.

use std::io::{self, Write};

use super::{
    BLOCK_INTERFACE, BLOCK_PACKET, BLOCK_SECTION, BYTE_ORDER, LINK_ETHERNET, LINK_RAW, OPTION_COMMENT, OPTION_END,
    OPTION_INTERFACE_NAME, OPTION_PACKET_FLAGS, OPTION_TIME_RESOLUTION, SNAP_LEN,
};

/// Which way a frame went, seen from the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards the stack.
    Received,
    /// From the stack.
    Sent,
}

/// Writes one interface's frames to a pcapng file.
pub struct PcapWriter<W: Write> {
    out: W,
    /// Where a block is put together, so that it is written whole.
    block: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file for an interface that carries Ethernet frames, or bare IP packets.
    pub fn new(out: W, ethernet: bool, interface: &str) -> io::Result<PcapWriter<W>> {
        let mut writer = PcapWriter { out, block: Vec::with_capacity(2_048) };
        writer.begin(BLOCK_SECTION);
        writer.put32(BYTE_ORDER);
        // Version 1.0, and a section of unknown length.
        writer.put16(1);
        writer.put16(0);
        writer.block.extend_from_slice(&u64::MAX.to_ne_bytes());
        writer.end()?;
        writer.begin(BLOCK_INTERFACE);
        writer.put16(if ethernet { LINK_ETHERNET } else { LINK_RAW });
        writer.put16(0);
        writer.put32(SNAP_LEN as u32);
        writer.option(OPTION_INTERFACE_NAME, interface.as_bytes());
        // Timestamps count ten to the power of minus nine seconds.
        writer.option(OPTION_TIME_RESOLUTION, &[9]);
        writer.option(OPTION_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds a frame. `unix_ns` is when, in nanoseconds since 1970; `comment` stands beside it in a viewer, such as why it was dropped.
    pub fn write(&mut self, unix_ns: u64, direction: Direction, frame: &[u8], comment: Option<&str>) -> io::Result<()> {
        let kept = &frame[..frame.len().min(SNAP_LEN)];
        self.begin(BLOCK_PACKET);
        self.put32(0);
        self.put32((unix_ns >> 32) as u32);
        self.put32(unix_ns as u32);
        self.put32(kept.len() as u32);
        self.put32(frame.len() as u32);
        self.block.extend_from_slice(kept);
        self.pad();
        let flags: u32 = if direction == Direction::Received { 1 } else { 2 };
        self.option(OPTION_PACKET_FLAGS, &flags.to_ne_bytes());
        if let Some(comment) = comment {
            self.option(OPTION_COMMENT, comment.as_bytes());
        }
        self.option(OPTION_END, &[]);
        self.end()
    }

    /// Hands everything to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put32(kind);
        // The length, once it is known.
        self.put32(0);
    }

    fn end(&mut self) -> io::Result<()> {
        // The length stands at both ends and counts both.
        let len = (self.block.len() + 4) as u32;
        self.put32(len);
        self.block[4..8].copy_from_slice(&len.to_ne_bytes());
        self.out.write_all(&self.block)
    }

    fn put32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    fn put16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.put16(code);
        self.put16(value.len() as u16);
        self.block.extend_from_slice(value);
        self.pad();
    }

    /// Everything begins at a multiple of four bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}
