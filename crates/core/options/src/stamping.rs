//! SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING as one word: the flags of the last
//! (`linux/net_tstamp.h`), and above them what the first two say.

/// `SOF_TIMESTAMPING_TX_SOFTWARE`: tell when it has left.
pub const TX_SOFTWARE: u32 = 1 << 1;
/// `SOF_TIMESTAMPING_RX_SOFTWARE`: note when it came.
pub const RX_SOFTWARE: u32 = 1 << 3;
/// `SOF_TIMESTAMPING_SOFTWARE`: the program wants such times.
pub const SOFTWARE: u32 = 1 << 4;
/// `SOF_TIMESTAMPING_OPT_ID`: each has a number.
pub const OPT_ID: u32 = 1 << 7;
/// `SOF_TIMESTAMPING_TX_SCHED`: tell when it went to the queue of the device.
pub const TX_SCHED: u32 = 1 << 8;
/// `SOF_TIMESTAMPING_TX_ACK`: tell when the peer has acknowledged it.
pub const TX_ACK: u32 = 1 << 9;
/// `SOF_TIMESTAMPING_OPT_CMSG`: tell by which interface.
pub const OPT_CMSG: u32 = 1 << 10;
/// `SOF_TIMESTAMPING_OPT_TSONLY`: without the packet.
pub const OPT_TSONLY: u32 = 1 << 11;
/// `SOF_TIMESTAMPING_OPT_STATS`: with values of TCP_INFO.
pub const OPT_STATS: u32 = 1 << 12;
/// `SOF_TIMESTAMPING_BIND_PHC`: by this clock of a device.
pub const BIND_PHC: u32 = 1 << 15;
/// `SOF_TIMESTAMPING_OPT_ID_TCP`: numbers of a stream begin behind what was written.
pub const OPT_ID_TCP: u32 = 1 << 16;
/// All flags that Linux 6.18 knows.
pub const ALL: u32 = (1 << 19) - 1;
/// The flags by which a send says what is to be noted of it: TX_HARDWARE, TX_SOFTWARE, TX_SCHED,
/// TX_ACK, TX_COMPLETION.
pub const TX_RECORD: u32 = 1 | TX_SOFTWARE | TX_SCHED | TX_ACK | 1 << 18;
/// Those of them that something is noted for here: there is no device that stamps.
pub const TX_NOTED: u32 = TX_SOFTWARE | TX_SCHED | TX_ACK;

/// SO_TIMESTAMP or SO_TIMESTAMPNS is set.
pub const STAMP: u32 = 1 << 24;
/// In nanoseconds: it was the latter.
pub const NANOSECONDS: u32 = 1 << 25;
/// The last one that was set is known by its newer number.
pub const NEW: u32 = 1 << 26;
/// SIOCGSTAMP or SIOCGSTAMPNS was asked.
pub const ASKED: u32 = 1 << 27;

/// When data arrives is to be noted.
pub const fn notes_arrival(word: u32) -> bool {
    word & (RX_SOFTWARE | STAMP | ASKED) != 0
}

/// When data leaves may have to be noted: by the socket's own flags, or by those of a single send,
/// which are of use only to who asked to be told.
pub const fn notes_leaving(word: u32) -> bool {
    word & (TX_NOTED | SOFTWARE) != 0
}
