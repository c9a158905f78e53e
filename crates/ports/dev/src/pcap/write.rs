//! Writing pcapng.

use std::io::{self, Write};

use super::{
    BLOCK_INTERFACE, BLOCK_PACKET, BLOCK_SECTION, BLOCK_STATISTICS, BYTE_ORDER, LINK_ETHERNET,
    LINK_RAW, OPTION_COMMENT, OPTION_DELIVERED, OPTION_END, OPTION_FITTING, OPTION_INTERFACE_NAME,
    OPTION_LOST, OPTION_PACKET_FLAGS, OPTION_SEEN, OPTION_TIME_RESOLUTION, SNAP_LEN,
};

/// Which way a frame went, seen from the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards the stack.
    Received,
    /// From the stack.
    Sent,
}

/// An interface of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(u32);

/// What an interface had while it was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InterfaceCounts {
    /// Frames that passed.
    pub seen: u64,
    /// Those that the filter fits.
    pub fitting: u64,
    /// Those of them that are not in the file, because it was not written as fast as they came.
    pub lost: u64,
}

/// A frame for a file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it passed.
    pub interface: InterfaceId,
    /// When, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Its bytes, or the first of them.
    pub bytes: &'a [u8],
    /// How many bytes it had when it passed.
    pub original_len: usize,
    /// What stands beside it in a viewer, such as why it was dropped, a comment a line; None for
    /// nothing.
    pub comment: Option<&'a str>,
}

impl<'a> Packet<'a> {
    /// A whole frame without a comment.
    pub fn whole(
        interface: InterfaceId,
        unix_ns: u64,
        direction: Direction,
        bytes: &'a [u8],
    ) -> Packet<'a> {
        Packet { interface, unix_ns, direction, bytes, original_len: bytes.len(), comment: None }
    }
}

/// Writes the frames of any number of interfaces to one pcapng file. Each block is handed over in
/// one piece.
pub struct PcapWriter<W: Write> {
    out: W,
    /// Where a block is put together.
    block: Vec<u8>,
    interfaces: u32,
    written: u64,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file.
    pub fn new(out: W) -> io::Result<PcapWriter<W>> {
        let mut writer =
            PcapWriter { out, block: Vec::with_capacity(2_048), interfaces: 0, written: 0 };
        writer.begin(BLOCK_SECTION);
        writer.put32(BYTE_ORDER);
        // Version 1.0, and a section of unknown length.
        writer.put16(1);
        writer.put16(0);
        writer.block.extend_from_slice(&u64::MAX.to_ne_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface that carries Ethernet frames, or bare IP packets. Its name is what a
    /// viewer shows.
    pub fn interface(&mut self, ethernet: bool, name: &str) -> io::Result<InterfaceId> {
        self.begin(BLOCK_INTERFACE);
        self.put16(if ethernet { LINK_ETHERNET } else { LINK_RAW });
        self.put16(0);
        self.put32(SNAP_LEN as u32);
        self.option(OPTION_INTERFACE_NAME, name.as_bytes());
        // Timestamps count ten to the power of minus nine seconds.
        self.option(OPTION_TIME_RESOLUTION, &[9]);
        self.option(OPTION_END, &[]);
        self.end()?;
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        Ok(id)
    }

    /// Adds a frame.
    pub fn write(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let kept = &packet.bytes[..packet.bytes.len().min(SNAP_LEN)];
        self.begin(BLOCK_PACKET);
        self.put32(packet.interface.0);
        self.put32((packet.unix_ns >> 32) as u32);
        self.put32(packet.unix_ns as u32);
        self.put32(kept.len() as u32);
        self.put32(packet.original_len.max(kept.len()) as u32);
        self.block.extend_from_slice(kept);
        self.pad();
        let flags: u32 = if packet.direction == Direction::Received { 1 } else { 2 };
        self.option(OPTION_PACKET_FLAGS, &flags.to_ne_bytes());
        for comment in packet.comment.into_iter().flat_map(str::lines) {
            self.option(OPTION_COMMENT, comment.as_bytes());
        }
        self.option(OPTION_END, &[]);
        self.end()
    }

    /// Says what an interface has had so far; the last of several counts.
    pub fn statistics(
        &mut self,
        interface: InterfaceId,
        unix_ns: u64,
        counts: &InterfaceCounts,
    ) -> io::Result<()> {
        self.begin(BLOCK_STATISTICS);
        self.put32(interface.0);
        self.put32((unix_ns >> 32) as u32);
        self.put32(unix_ns as u32);
        let InterfaceCounts { seen, fitting, lost } = *counts;
        for (code, count) in [
            (OPTION_SEEN, seen),
            (OPTION_LOST, lost),
            (OPTION_FITTING, fitting),
            (OPTION_DELIVERED, fitting.saturating_sub(lost)),
        ] {
            self.option(code, &count.to_ne_bytes());
        }
        self.option(OPTION_END, &[]);
        self.end()
    }

    /// Bytes of the file so far.
    pub fn written(&self) -> u64 {
        self.written
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
        self.out.write_all(&self.block)?;
        self.written += u64::from(len);
        Ok(())
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
