//! A pcapng stream, block by block, as it comes.

use std::collections::BTreeMap;

use anyhow::bail;

/// A block of the host's: a packet of up to 256 KiB with its comments.
const MAX_BLOCK: usize = 1 << 20;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// The option of an interface's statistics that counts lost packets (isb_ifdrop).
const LOST: u16 = 5;

/// One block.
pub(super) struct Block<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_packet: bool,
}

/// Cuts a stream into its blocks, and counts.
#[derive(Default)]
pub(super) struct Blocks {
    rest: Vec<u8>,
    /// What every file of a ring begins with: the section, and its interfaces so far.
    header: Vec<u8>,
    pub(super) packets: u64,
    /// By interface.
    lost: BTreeMap<u32, u64>,
}

impl Blocks {
    /// Packets that the host could not pass on.
    pub(super) fn lost(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Takes bytes; `each` gets every block that is whole, and what stands before any packet.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&Block<'_>, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = self.rest.get(at..at + 8) {
            let (kind, len) = (word(head, 0), word(head, 4) as usize);
            if !(12..=MAX_BLOCK).contains(&len) || len % 4 != 0 {
                bail!("the host sent something else than pcapng");
            }
            let Some(block) = self.rest.get(at..at + len) else { break };
            match kind {
                SECTION | INTERFACE => self.header.extend_from_slice(block),
                PACKET => self.packets += 1,
                STATISTICS => {
                    if let Some(lost) = lost_of(block) {
                        self.lost.insert(word(block, 8), lost);
                    }
                }
                _ => {}
            }
            each(&Block { bytes: block, is_packet: kind == PACKET }, &self.header)?;
            at += len;
        }
        self.rest.drain(..at);
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// What the statistics of an interface say was lost.
fn lost_of(block: &[u8]) -> Option<u64> {
    let mut options = block.get(20..block.len() - 4)?;
    loop {
        let (code, len) = (word(options, 0) as u16, (word(options, 0) >> 16) as usize);
        // The machine that wrote it is this one, so its order of bytes is ours.
        let (code, len) =
            if cfg!(target_endian = "big") { (len as u16, code.into()) } else { (code, len) };
        if code == LOST {
            return Some(u64::from_ne_bytes(options.get(4..12)?.try_into().ok()?));
        }
        if code == 0 {
            return None;
        }
        options = options.get(4 + len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use clearway_dev::PcapWriter;
    use clearway_dev::pcap::{Direction, InterfaceCounts, Packet};

    use super::*;

    fn stream() -> Vec<u8> {
        let mut writer = PcapWriter::new(Vec::new()).unwrap();
        let one = writer.interface(true, "tap0").unwrap();
        let two = writer.interface(false, "loop0").unwrap();
        for at in 0..3 {
            writer.write(&Packet::whole(one, at, Direction::Sent, &[at as u8; 61])).unwrap();
        }
        let counts = |lost| InterfaceCounts { seen: 10, fitting: 9, lost };
        writer.statistics(one, 1, &counts(2)).unwrap();
        writer.statistics(one, 2, &counts(4)).unwrap();
        writer.statistics(two, 3, &counts(1)).unwrap();
        writer.into_inner()
    }

    #[test]
    fn blocks_come_out_whole_however_the_stream_is_cut() {
        let whole = stream();
        for piece in [1, 7, 100, 10_000] {
            let (mut blocks, mut out) = (Blocks::default(), Vec::new());
            for bytes in whole.chunks(piece) {
                blocks
                    .feed(bytes, |block, header| {
                        assert!(!header.is_empty());
                        out.extend_from_slice(block.bytes);
                        Ok(())
                    })
                    .unwrap();
            }
            assert_eq!(out, whole);
            assert_eq!((blocks.packets, blocks.lost()), (3, 5), "the last of several counts");
        }
    }

    #[test]
    fn what_is_no_block_is_refused_and_damage_makes_no_panic() {
        assert!(Blocks::default().feed(b"error: no such thing", |_, _| Ok(())).is_err());
        let whole = stream();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            let _ = Blocks::default().feed(&bytes, |_, _| Ok(()));
        }
    }
}
