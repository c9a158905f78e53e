//! What a device counts. Every lost frame is counted under exactly one reason.

/// Makes an enum of reasons with a fixed order, a name for each, and a count of them.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$var_doc:meta])* $var:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$var_doc])* $var,)*
        }

        impl $name {
            /// All reasons, in the order of the counters.
            pub const ALL: &'static [$name] = &[$($name::$var),*];

            /// The one name under which the reason is shown everywhere.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$var => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// Why a frame that arrived was not handed to the stack.
    RxDrop {
        /// The frame pool had no buffer left.
        NoBuffer = "no-buffer",
        /// The frame was longer than the largest buffer.
        TooLong = "too-long",
        /// The header that the kernel or device put before the frame made no sense.
        BadHeader = "bad-device-header",
        /// Lost on purpose by the fault injector.
        FaultLoss = "fault-loss",
        /// The fault injector's bottleneck queue was full.
        FaultQueue = "fault-queue-full",
        /// A frame joined from several segments could not be cut again.
        Uncuttable = "uncuttable",
        /// A record of a capture file was damaged or cut short.
        BadRecord = "bad-record",
        /// The device lost it before anybody could take it: its ring was full, or it had no buffer.
        Missed = "missed",
        /// The device received a frame that was damaged.
        DeviceError = "device-error",
        /// The core that the frame's flow belongs to did not take its frames in time.
        CoreFull = "core-full",
    }
}

reasons! {
    /// Why a frame that the stack committed did not go out.
    TxDrop {
        /// The other side's queue was full.
        QueueFull = "queue-full",
        /// The frame was longer than the link carries.
        TooLong = "too-long",
        /// What was asked for cannot be done with this frame (segmentation of something that is
        /// neither TCP nor UDP, a checksum outside of it).
        BadRequest = "bad-request",
        /// The system refused the frame.
        Refused = "refused",
        /// The interface is down.
        LinkDown = "link-down",
        /// The frame pool had no buffer left.
        NoBuffer = "no-buffer",
        /// Lost on purpose by the fault injector.
        FaultLoss = "fault-loss",
        /// The fault injector's bottleneck queue was full.
        FaultQueue = "fault-queue-full",
        /// The device below had no room when a held-back frame fell due.
        NoRoom = "no-room",
    }
}

/// Frames and bytes that went through a device, and those that did not. A frame that stands for
/// several segments counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DevCounters {
    /// Frames handed to the stack.
    pub rx_packets: u64,
    /// Their bytes, link header included.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Their bytes, link header included.
    pub tx_bytes: u64,
    /// Frames lost on the way in, by reason; read with [`DevCounters::rx_dropped`].
    pub rx_drops: [u64; RxDrop::ALL.len()],
    /// Frames lost on the way out, by reason; read with [`DevCounters::tx_dropped`].
    pub tx_drops: [u64; TxDrop::ALL.len()],
}

impl DevCounters {
    /// Frames lost on the way in for this reason.
    pub fn rx_dropped(&self, why: RxDrop) -> u64 {
        self.rx_drops[why as usize]
    }

    /// Frames lost on the way out for this reason.
    pub fn tx_dropped(&self, why: TxDrop) -> u64 {
        self.tx_drops[why as usize]
    }

    /// Frames lost on the way in.
    pub fn rx_dropped_total(&self) -> u64 {
        self.rx_drops.iter().sum()
    }

    /// Frames lost on the way out.
    pub fn tx_dropped_total(&self) -> u64 {
        self.tx_drops.iter().sum()
    }

    /// Counts a frame handed to the stack.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// Counts a frame sent.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        self.tx_packets += 1;
        self.tx_bytes += bytes as u64;
    }

    /// Counts a frame lost on the way in.
    #[inline]
    pub fn drop_rx(&mut self, why: RxDrop) {
        self.rx_drops[why as usize] += 1;
    }

    /// Counts a frame lost on the way out.
    #[inline]
    pub fn drop_tx(&mut self, why: TxDrop) {
        self.tx_drops[why as usize] += 1;
    }

    /// The same drops seen through a wrapper: `self` keeps its own packets and bytes and adds what
    /// the device below lost.
    pub fn with_drops_of(mut self, below: &DevCounters) -> DevCounters {
        for (mine, theirs) in self.rx_drops.iter_mut().zip(below.rx_drops) {
            *mine += theirs;
        }
        for (mine, theirs) in self.tx_drops.iter_mut().zip(below.tx_drops) {
            *mine += theirs;
        }
        self
    }

    /// Adds another queue's counts to these.
    pub fn add(&mut self, other: &DevCounters) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        *self = self.with_drops_of(other);
    }
}
