use std::sync::Arc;

use proptest::prelude::*;

use crate::attach_socket::{FifoPlace, Place};
use crate::{Consumer, FifoMem, Producer, Segment};

/// A FIFO of `capacity` bytes, of which `limit` may be filled.
fn fifo(capacity: u32, limit: u32) -> FifoMem {
    let (memory, _fd) = Segment::create("clearway-test", 8192).unwrap();
    let place = |offset| Place { segment: 0, offset };
    let memory = Arc::new(memory);
    FifoMem::new(
        &memory,
        &memory,
        &FifoPlace { head: place(0), data: place(4096), capacity, limit },
    )
    .unwrap()
}

proptest! {
    /// Writes, passes and reads of any sizes, round and round both FIFOs: what is read is what was
    /// written.
    #[test]
    fn bytes_stay_as_they_are_and_in_order(
        sizes in (6u32..11, 6u32..11, 1u32..65),
        steps in prop::collection::vec((0usize..700, 0u32..900, 0usize..700), 1..60),
    ) {
        let (first, second) = (fifo(1 << sizes.0, 1 << sizes.0), fifo(1 << sizes.1, sizes.2));
        let (mut writer, mut from) = (Producer::new(first.clone()), Consumer::new(first));
        let (mut to, mut reader) = (Producer::new(second.clone()), Consumer::new(second));
        let (mut sent, mut seen) = (0u32, 0u32);
        for (write, pass, read) in steps {
            let bytes: Vec<u8> = (0..write as u32).map(|at| (sent + at) as u8).collect();
            sent += writer.write(&bytes).unwrap() as u32;
            let most = from.len().unwrap().min(to.room().unwrap()).min(pass);
            prop_assert_eq!(from.pass(&mut to, pass), most);
            let mut out = vec![0; read];
            let len = reader.read(&mut out).unwrap();
            for byte in &out[..len] {
                prop_assert_eq!(*byte, seen as u8);
                seen += 1;
            }
        }
        let left = from.len().unwrap() + reader.len().unwrap();
        prop_assert_eq!(seen + left, sent);
    }
}

#[test]
fn what_nobody_looked_at_is_not_passed() {
    let (first, second) = (fifo(64, 64), fifo(64, 64));
    let (mut writer, mut from) = (Producer::new(first.clone()), Consumer::new(first));
    let mut to = Producer::new(second);
    writer.write(&[7; 10]).unwrap();
    assert_eq!(from.pass(&mut to, 10), 0);
    assert_eq!(from.len().unwrap(), 10);
    assert_eq!(from.pass(&mut to, 4), 4);
    assert_eq!(from.len().unwrap(), 6);
}
