//! What several test programs make at random.

use clearway_wire::{Flags, Segment, Seq, TcpOptions};
use proptest::prelude::*;

prop_compose! {
    /// A TCP header with any values, and with options of the caller's choice.
    pub(crate) fn segment_with(opts: impl Strategy<Value = TcpOptions>)(
        ports in any::<(u16, u16)>(),
        numbers in any::<(u32, u32)>(),
        flags in 0..0x200u16,
        (wnd, urg) in any::<(u16, u16)>(),
        opts in opts,
    ) -> Segment {
        Segment {
            src_port: ports.0,
            dst_port: ports.1,
            seq: Seq(numbers.0),
            ack: Seq(numbers.1),
            flags: Flags(flags),
            header_len: opts.header_len() as u8,
            wnd,
            urg,
            opts,
        }
    }
}
