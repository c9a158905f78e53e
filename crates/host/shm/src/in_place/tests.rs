use std::io::{Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::attach_socket::{FifoPlace, Place};
use crate::{Consumer, FifoMem, Producer, Segment};

const CAPACITY: u32 = 64;

fn fifo() -> (Producer, Consumer) {
    let (memory, _fd) = Segment::create("clearway-test", 8192).unwrap();
    let place = |offset| Place { segment: 0, offset };
    let memory = Arc::new(memory);
    let lies = FifoPlace { head: place(0), data: place(4096), capacity: CAPACITY, limit: CAPACITY };
    let fifo = FifoMem::new(&memory, &memory, &lies).unwrap();
    (Producer::new(fifo.clone()), Consumer::new(fifo))
}

fn bytes(from: &Consumer, at: u32, len: u32) -> Option<(Vec<u8>, usize)> {
    let pieces = from.pieces(at, len)?;
    let bytes = pieces.concat_bytes();
    Some((bytes, pieces[0].len()))
}

trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for [&[std::sync::atomic::AtomicU8]; 2] {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|piece| piece.iter()).map(|b| b.load(Ordering::Relaxed)).collect()
    }
}

#[test]
fn bytes_are_named_where_they_lie_also_over_the_end_of_the_memory() {
    let (mut to, mut from) = fifo();
    let all: Vec<u8> = (0..100).collect();
    to.write(&all[..50]).unwrap();
    assert_eq!(from.pieces(0, 1).map(|_| ()), None, "nothing is known before a look");
    from.len().unwrap();
    from.consume(40);
    to.write(&all[50..100]).unwrap();
    from.len().unwrap();
    assert_eq!(bytes(&from, 0, 24), Some((all[40..64].to_vec(), 24)));
    assert_eq!(bytes(&from, 4, 56), Some((all[44..100].to_vec(), 20)));
    assert_eq!(bytes(&from, 30, 30), Some((all[70..100].to_vec(), 30)));
    assert_eq!(bytes(&from, 30, 31), None);
    assert_eq!(bytes(&from, u32::MAX, 2), None);
}

#[test]
fn a_file_is_read_to_where_its_bytes_are_to_lie() {
    let (mut to, mut from) = fifo();
    let path = std::env::temp_dir().join(format!("clearway-in-place-{}", std::process::id()));
    let mut file = std::fs::File::create_new(&path).unwrap();
    let file = {
        let all: Vec<u8> = (0..100).collect();
        file.write_all(&all).unwrap();
        file.rewind().unwrap();
        let readable = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        readable
    };
    let fd = file.as_raw_fd();
    // Moved on, so that what follows goes over the end of the memory.
    to.write(&[0; 40]).unwrap();
    let mut out = [0; 64];
    assert_eq!(from.read(&mut out), Ok(40));
    to.write(&[9]).unwrap();
    assert_eq!(from.len(), Ok(1));
    assert_eq!(to.read_file(fd, 10, 100).unwrap().unwrap(), 63, "as much as there is room for");
    assert_eq!(from.len(), Ok(1), "nothing is published");
    to.publish(63);
    assert_eq!(from.read(&mut out), Ok(64));
    assert!(out[0] == 9 && out[1..].iter().copied().eq(10..73), "{out:?}");
    assert_eq!(to.read_file(fd, 95, 40).unwrap().unwrap(), 5, "the file ends");
    assert_eq!(to.read_file(fd, 100, 40).unwrap().unwrap(), 0);
    to.publish(5);
    assert_eq!(from.read(&mut out), Ok(5));
    assert!(out[..5].iter().copied().eq(95..100));
    let error = to.read_file(-1, 0, 1).unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}
