//! A port that receives what a file holds.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use clearway_base::Instant;
use clearway_pkt::{Burst, Offloads, PoolBuf, RxMeta, TxMeta};
use clearway_wire::eth;

use super::read::{PcapReader, Record};
use crate::device::{MAX_IP_PACKET, max_frame};
use crate::staging::Staging;
use crate::{DevCounters, DevError, Facts, FramePool, Mac, Receive, RxDrop, Transmit, TxDrop};

/// Plays a capture file back, as fast as it is taken. What is sent goes nowhere, and is counted.
pub struct Replay<R> {
    port: String,
    reader: PcapReader<R>,
    /// A frame that was read and found no buffer yet.
    next: Option<Record>,
    /// The file is read to its end, or to where it is damaged.
    ended: bool,
    mac: Option<Mac>,
    pool: FramePool,
    staging: Staging,
    counters: DevCounters,
}

/// Our address when no frame of the file is for one link address.
const NOBODYS_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x01]);

impl Replay<BufReader<File>> {
    /// Opens `path`. On Ethernet the device has the address that the file's first frame for a
    /// single link address is for.
    pub fn open(path: &Path, pool: FramePool) -> Result<Replay<BufReader<File>>, DevError> {
        let port = format!("pcap:{}", path.display());
        let open = || File::open(path).map(BufReader::new);
        let failed = |error: io::Error| {
            let (what, remedy) = if error.kind() == io::ErrorKind::InvalidData {
                (
                    "the file cannot be played back",
                    "Give it a pcap or pcapng file of Ethernet frames or IP packets",
                )
            } else {
                ("the file cannot be opened", "Look whether it is there and may be read")
            };
            DevError::new(&port, what, remedy).with_source(error)
        };
        let mac = first_link_addr(&mut PcapReader::new(open().map_err(failed)?).map_err(failed)?);
        let reader = PcapReader::new(open().map_err(failed)?).map_err(failed)?;
        Ok(Replay::new(reader, &port, mac, pool))
    }
}

/// The first address of a single link address that a frame is for, or None when the file holds bare
/// IP packets.
fn first_link_addr<R: Read>(reader: &mut PcapReader<R>) -> Option<Mac> {
    let mut ethernet = false;
    // Damage further on is met, and counted, when the file is played.
    while let Ok(Some(record)) = reader.next_record() {
        if !record.ethernet {
            return None;
        }
        ethernet = true;
        if let Some(mac) =
            eth::check(&record.frame).ok().map(|eth| eth.dst()).filter(|mac| !mac.is_multicast())
        {
            return Some(mac);
        }
    }
    ethernet.then_some(NOBODYS_MAC)
}

impl<R: Read> Replay<R> {
    /// Plays what `reader` gives; `mac` is our address, None when it holds bare IP packets. `port`
    /// is the name for errors.
    pub fn new(reader: PcapReader<R>, port: &str, mac: Option<Mac>, pool: FramePool) -> Replay<R> {
        let mut replay = Replay {
            port: port.into(),
            reader,
            next: None,
            ended: false,
            mac,
            pool,
            staging: Staging::new(max_frame(MAX_IP_PACKET, true)),
            counters: DevCounters::default(),
        };
        replay.advance();
        replay
    }

    /// Whether everything was played.
    pub fn is_finished(&self) -> bool {
        self.ended && self.next.is_none()
    }

    /// The port's name.
    pub fn port(&self) -> &str {
        &self.port
    }

    /// Reads up to the next frame that can be played.
    fn advance(&mut self) {
        while !self.ended && self.next.is_none() {
            match self.reader.next_record() {
                Ok(Some(record))
                    if record.ethernet != self.mac.is_some()
                        || record.frame.len() < record.original_len =>
                {
                    self.counters.drop_rx(RxDrop::BadRecord);
                }
                Ok(Some(record)) if record.frame.len() > self.pool.max_frame() => {
                    self.counters.drop_rx(RxDrop::TooLong);
                }
                Ok(next) => {
                    self.ended = next.is_none();
                    self.next = next;
                }
                Err(_) => {
                    self.counters.drop_rx(RxDrop::BadRecord);
                    self.ended = true;
                }
            }
        }
    }
}

impl<R: Read> Receive for Replay<R> {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        while burst.room() > 0 {
            let Some(record) = &self.next else { break };
            // A file does not run away, so a frame without a buffer waits for one.
            let Some(buf) = self.pool.copy_of(&record.frame) else { break };
            self.counters.received(record.frame.len());
            // There is room, as was just seen.
            let _ = burst.push(buf, RxMeta::default());
            self.next = None;
            self.advance();
        }
        Ok(())
    }
}

impl<R: Read> Transmit for Replay<R> {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.staging.reserve(len)
    }

    fn commit(&mut self, len: usize, _meta: TxMeta) {
        match self.staging.commit(len) {
            Some(_) => self.counters.sent(len),
            None => self.counters.drop_tx(TxDrop::BadRequest),
        }
    }

    fn reserved(&self) -> &[u8] {
        self.staging.reserved()
    }
}

impl<R: Read> Facts for Replay<R> {
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    fn mtu(&self) -> usize {
        MAX_IP_PACKET
    }

    fn mac(&self) -> Option<Mac> {
        self.mac
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }

    fn next_deadline(&self) -> Instant {
        if self.next.is_some() { Instant::ZERO } else { Instant::NEVER }
    }
}
