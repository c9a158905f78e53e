//! Reading pcap and pcapng, of either byte order. A file is not trusted: lengths are held against
//! bounds before anything is allocated.

use std::io::{self, Read};

use super::{
    BLOCK_INTERFACE, BLOCK_PACKET, BLOCK_SECTION, BLOCK_SIMPLE, BYTE_ORDER, LINK_ETHERNET,
    LINK_IPV4, LINK_IPV6, LINK_RAW, OPTION_END, OPTION_TIME_RESOLUTION, SNAP_LEN,
};

/// Interfaces in one pcapng section at most.
const MAX_INTERFACES: usize = 1_024;

/// A frame of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it passed, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Whether it begins with an Ethernet header; it begins with its IP header otherwise.
    pub ethernet: bool,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// How long it was when it passed; more than `frame` holds when the capture cut it.
    pub original_len: usize,
}

/// Reads a capture file frame by frame.
pub struct PcapReader<R> {
    input: R,
    swapped: bool,
    kind: Kind,
}

enum Kind {
    Pcap { ethernet: bool, nanos: bool },
    PcapNg { interfaces: Vec<Interface> },
}

#[derive(Clone, Copy)]
struct Interface {
    /// None for a link whose frames we cannot use.
    ethernet: Option<bool>,
    /// How fine its timestamps are.
    ticks_per_second: u64,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whether the link carries Ethernet frames; None when it carries neither them nor bare IP packets.
fn is_ethernet(link: u16) -> Option<bool> {
    match link {
        LINK_ETHERNET => Some(true),
        LINK_RAW | LINK_IPV4 | LINK_IPV6 => Some(false),
        _ => None,
    }
}

impl<R: Read> PcapReader<R> {
    /// Looks at the head of a file.
    pub fn new(mut input: R) -> io::Result<PcapReader<R>> {
        let mut magic = [0; 4];
        input
            .read_exact(&mut magic)
            .map_err(|_| bad("this is no capture file: it is too short"))?;
        let magic = u32::from_ne_bytes(magic);
        let (nanos, swapped) = match magic {
            BLOCK_SECTION => {
                let mut reader = PcapReader {
                    input,
                    swapped: false,
                    kind: Kind::PcapNg { interfaces: Vec::new() },
                };
                reader.section()?;
                return Ok(reader);
            }
            0xa1b2_c3d4 => (false, false),
            0xa1b2_3c4d => (true, false),
            _ => match magic.swap_bytes() {
                0xa1b2_c3d4 => (false, true),
                0xa1b2_3c4d => (true, true),
                _ => {
                    return Err(bad(
                        "this is no capture file: it begins like neither pcap nor pcapng",
                    ));
                }
            },
        };
        let kind = Kind::Pcap { ethernet: true, nanos };
        let mut reader = PcapReader { input, swapped, kind };
        let mut head = [0; 20];
        reader.input.read_exact(&mut head)?;
        // The upper half of the word says how long the frames' check sequences are.
        let link = reader.u32_at(&head, 16) as u16;
        let ethernet =
            is_ethernet(link).ok_or_else(|| bad("the frames are neither Ethernet nor bare IP"))?;
        reader.kind = Kind::Pcap { ethernet, nanos };
        Ok(reader)
    }

    /// The next frame; None at the end of the file.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        match self.kind {
            Kind::Pcap { ethernet, nanos } => self.next_pcap(ethernet, nanos),
            Kind::PcapNg { .. } => self.next_pcapng(),
        }
    }

    fn next_pcap(&mut self, ethernet: bool, nanos: bool) -> io::Result<Option<Record>> {
        let mut head = [0; 16];
        if !self.read_or_end(&mut head)? {
            return Ok(None);
        }
        let (seconds, fraction) =
            (u64::from(self.u32_at(&head, 0)), u64::from(self.u32_at(&head, 4)));
        let (len, original_len) = (self.u32_at(&head, 8) as usize, self.u32_at(&head, 12) as usize);
        if len > SNAP_LEN {
            return Err(bad("a frame is longer than any frame can be"));
        }
        let mut frame = vec![0; len];
        self.input.read_exact(&mut frame)?;
        let unix_ns = seconds * 1_000_000_000 + fraction * if nanos { 1 } else { 1_000 };
        Ok(Some(Record { unix_ns, ethernet, frame, original_len }))
    }

    fn next_pcapng(&mut self) -> io::Result<Option<Record>> {
        loop {
            let mut kind = [0; 4];
            if !self.read_or_end(&mut kind)? {
                return Ok(None);
            }
            // A section header reads the same in either byte order.
            let kind = self.u32_at(&kind, 0);
            if kind == BLOCK_SECTION {
                self.section()?;
                continue;
            }
            let body = self.block_body()?;
            match kind {
                BLOCK_INTERFACE => self.interface(&body)?,
                BLOCK_PACKET => {
                    if let Some(record) = self.packet(&body)? {
                        return Ok(Some(record));
                    }
                }
                // Without a time, a frame of the first interface.
                BLOCK_SIMPLE => {
                    if let Some(record) = self.simple_packet(&body)? {
                        return Ok(Some(record));
                    }
                }
                _ => {}
            }
        }
    }

    /// The rest of a section header, whose type was read: a new section may have another byte
    /// order, and has its own interfaces.
    fn section(&mut self) -> io::Result<()> {
        let mut head = [0; 8];
        self.input.read_exact(&mut head)?;
        self.swapped = match u32::from_ne_bytes([head[4], head[5], head[6], head[7]]) {
            BYTE_ORDER => false,
            other if other.swap_bytes() == BYTE_ORDER => true,
            _ => return Err(bad("a section header has no byte order")),
        };
        let len = self.u32_at(&head, 0) as usize;
        if !(28..=SNAP_LEN).contains(&len) || len % 4 != 0 {
            return Err(bad("a section header has an impossible length"));
        }
        // Type, length and byte order are read; the closing length is the last of the rest.
        self.skip(len - 12)?;
        self.kind = Kind::PcapNg { interfaces: Vec::new() };
        Ok(())
    }

    /// The body of a block whose type was read, its two lengths checked.
    fn block_body(&mut self) -> io::Result<Vec<u8>> {
        let mut word = [0; 4];
        self.input.read_exact(&mut word)?;
        let len = self.u32_at(&word, 0) as usize;
        // Twice the longest frame leaves room for any options.
        if !(12..=2 * SNAP_LEN).contains(&len) || len % 4 != 0 {
            return Err(bad("a block has an impossible length"));
        }
        let mut body = vec![0; len - 12];
        self.input.read_exact(&mut body)?;
        self.input.read_exact(&mut word)?;
        if self.u32_at(&word, 0) as usize != len {
            return Err(bad("the two lengths of a block differ"));
        }
        Ok(body)
    }

    fn interface(&mut self, body: &[u8]) -> io::Result<()> {
        if body.len() < 8 {
            return Err(bad("an interface description is too short"));
        }
        let ethernet = is_ethernet(self.u16_at(body, 0));
        let mut ticks_per_second = 1_000_000;
        let mut options = &body[8..];
        while options.len() >= 4 {
            let (code, len) = (self.u16_at(options, 0), usize::from(self.u16_at(options, 2)));
            let Some(value) = options.get(4..4 + len) else { break };
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_TIME_RESOLUTION, [exponent]) => {
                    let (base, power) = if exponent & 0x80 == 0 {
                        (10u64, *exponent)
                    } else {
                        (2, exponent & 0x7f)
                    };
                    ticks_per_second = base
                        .checked_pow(u32::from(power))
                        .ok_or_else(|| bad("a clock ticks impossibly fast"))?;
                }
                _ => {}
            }
            options = options.get((4 + len).next_multiple_of(4)..).unwrap_or_default();
        }
        match &mut self.kind {
            Kind::PcapNg { interfaces } if interfaces.len() < MAX_INTERFACES => {
                interfaces.push(Interface { ethernet, ticks_per_second });
                Ok(())
            }
            _ => Err(bad("there are too many interfaces")),
        }
    }

    fn interface_at(&self, index: u32) -> io::Result<Interface> {
        match &self.kind {
            Kind::PcapNg { interfaces } => interfaces.get(index as usize).copied(),
            Kind::Pcap { .. } => None,
        }
        .ok_or_else(|| bad("a frame belongs to an interface that is not described"))
    }

    fn packet(&self, body: &[u8]) -> io::Result<Option<Record>> {
        if body.len() < 20 {
            return Err(bad("a frame's block is too short"));
        }
        let interface = self.interface_at(self.u32_at(body, 0))?;
        let ticks = u64::from(self.u32_at(body, 4)) << 32 | u64::from(self.u32_at(body, 8));
        let unix_ns = u128::from(ticks) * 1_000_000_000 / u128::from(interface.ticks_per_second);
        let (len, original_len) = (self.u32_at(body, 12) as usize, self.u32_at(body, 16) as usize);
        let frame = body[20..].get(..len).ok_or_else(|| bad("a frame is longer than its block"))?;
        let Some(ethernet) = interface.ethernet else { return Ok(None) };
        Ok(Some(Record { unix_ns: unix_ns as u64, ethernet, frame: frame.to_vec(), original_len }))
    }

    fn simple_packet(&self, body: &[u8]) -> io::Result<Option<Record>> {
        let interface = self.interface_at(0)?;
        if body.len() < 4 {
            return Err(bad("a frame's block is too short"));
        }
        let original_len = self.u32_at(body, 0) as usize;
        let frame = &body[4..][..original_len.min(body.len() - 4)];
        let Some(ethernet) = interface.ethernet else { return Ok(None) };
        Ok(Some(Record { unix_ns: 0, ethernet, frame: frame.to_vec(), original_len }))
    }

    fn u16_at(&self, bytes: &[u8], at: usize) -> u16 {
        let value = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        let value = u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn skip(&mut self, len: usize) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.input).take(len as u64), &mut io::sink())?;
        if skipped == len as u64 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Fills `bytes`, or says that the file ends here; an end within them is an error.
    fn read_or_end(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
