use std::ffi::c_int;
use std::io::IoSlice;
use std::ptr;
use std::sync::{Arc, Once};

use super::*;
use crate::attach_socket::{FifoPlace, Place};
use crate::layout::DatagramHead;
use crate::memory::Segment;
use crate::{Consumer, FifoMem, Producer};

/// Three pages: one that may be written, one that may be read, and one that is not there.
struct Pages(*mut u8);

impl Pages {
    fn new() -> Pages {
        catch();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, of which the second and third page are taken access from.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), 3 * PAGE, access, how, -1, 0).cast::<u8>();
            assert_ne!(at.cast(), libc::MAP_FAILED);
            assert_eq!(libc::mprotect(at.add(PAGE).cast(), PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::mprotect(at.add(2 * PAGE).cast(), PAGE, libc::PROT_NONE), 0);
            Pages(at)
        }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }

    /// So many bytes from `offset` on, which may not be there: only for who asks `copy`.
    fn bytes(&self, offset: usize, len: usize) -> &'static [u8] {
        // SAFETY: they are touched by `copy` alone.
        unsafe { std::slice::from_raw_parts(self.at(offset), len) }
    }

    fn room(&self, offset: usize, len: usize) -> &'static mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset), len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`.
        unsafe { libc::munmap(self.0.cast(), 3 * PAGE) };
    }
}

/// Faults of this test process are recovered from where they can be, and end it elsewhere.
fn catch() {
    extern "C" fn entry(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the kernel gave; these tests are in calls of ours.
        if !unsafe { recover(context, true) } {
            // SAFETY: numbers.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all of it are numbers, but the handler, which is as the kernel asks.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            action.sa_sigaction = entry as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
        }
    });
}

const END: usize = 2 * PAGE;

#[test]
fn what_may_be_read_and_what_may_be_written() {
    let pages = Pages::new();
    pages.room(0, 1)[0] = 7;
    // SAFETY: faults are recovered from.
    unsafe {
        for (at, len, reads, writes) in [
            (0, 1, true, true),
            (0, PAGE, true, true),
            (0, PAGE + 1, true, false),
            (PAGE - 1, 2, true, false),
            (PAGE, PAGE, true, false),
            (END - 1, 1, true, false),
            (END - 1, 2, false, false),
            (0, 3 * PAGE, false, false),
            (END, 1, false, false),
            (END, 0, true, true),
        ] {
            assert_eq!(may_read(pages.at(at).cast(), len), reads, "{len} from {at} on");
            assert_eq!(may_write(pages.at(at).cast(), len), writes, "{len} from {at} on");
        }
        for nowhere in [0, 1, usize::MAX, 1 << 62] {
            assert!(!may_read(ptr::without_provenance(nowhere), 1), "{nowhere:x}");
            assert!(!may_write(ptr::without_provenance_mut(nowhere), 1), "{nowhere:x}");
        }
    }
    assert_eq!(pages.bytes(0, 1), [7], "nothing was changed");
}

#[test]
fn a_copy_of_any_length_fails_where_memory_ends_and_goes_on_where_it_does_not() {
    let pages = Pages::new();
    let mut own = vec![0u8; 3 * PAGE];
    let lens = [1, 2, 7, 8, 15, 16, 31, 33, 64, 100, 200, 500, 1000, 2048, 3000, 4000];
    // SAFETY: faults are recovered from, and the vector is as long.
    unsafe {
        for len in lens {
            assert!(copy(pages.at(END - len), own.as_mut_ptr(), len), "{len} from the end");
            assert!(copy(own.as_ptr(), pages.at(PAGE - len), len), "{len} to the end");
            for over in [1, len / 2 + 1, len] {
                let over = over.min(len);
                assert!(!copy(pages.at(END - len + over), own.as_mut_ptr(), len), "{len}, {over}");
                assert!(!copy(own.as_ptr(), pages.at(PAGE - len + over), len), "{len}, {over}");
            }
        }
        assert!(copy(pages.at(END), own.as_mut_ptr(), 0));
    }
}

fn both() -> (Producer, Consumer) {
    let segment = Arc::new(Segment::on_heap(4 * PAGE));
    let head = Place { segment: 0, offset: 3 * PAGE as u32 };
    let place = FifoPlace { head, data: Place::default(), capacity: 8192, limit: 8192 };
    let mem = FifoMem::new(&segment, &segment, &place).unwrap();
    (Producer::new(mem.clone()), Consumer::new(mem))
}

#[test]
fn of_bytes_that_are_not_there_none_is_written_and_the_next_ones_are() {
    let pages = Pages::new();
    let (mut producer, mut consumer) = both();
    assert_eq!(producer.write_ahead(0, &[1; 10]), Ok(10));
    assert_eq!(producer.write_ahead(10, pages.bytes(END - 5, 10)), Ok(0));
    assert!(producer.faulted());
    assert!(!producer.faulted(), "it is told once");
    assert_eq!(producer.ahead(), 0, "what was ahead is forgotten");
    assert_eq!(consumer.len(), Ok(0));
    assert_eq!(producer.write(&[2; 10]), Ok(10));
    let mut out = [0; 20];
    assert_eq!(consumer.read(&mut out), Ok(10));
    assert_eq!(out[..10], [2; 10]);
    assert!(!producer.faulted() && !consumer.faulted());
}

#[test]
fn what_there_is_no_memory_for_is_not_read() {
    let pages = Pages::new();
    let (mut producer, mut consumer) = both();
    producer.write(&[3; 100]).unwrap();
    assert_eq!(consumer.peek(0, pages.room(PAGE - 50, 100)), Ok(0));
    assert!(consumer.faulted());
    assert_eq!(consumer.peek(0, pages.room(PAGE - 50, 50)), Ok(50));
    assert!(!consumer.faulted());
    assert_eq!(pages.bytes(PAGE - 50, 50), [3; 50]);
}

#[test]
fn a_datagram_of_which_a_part_is_not_there_is_not_sent() {
    let pages = Pages::new();
    let (mut producer, mut consumer) = both();
    let parts = [IoSlice::new(&[1; 10]), IoSlice::new(pages.bytes(END - 1, 3))];
    assert_eq!(producer.push_datagram(DatagramHead::default(), &parts), Ok(false));
    assert!(producer.faulted());
    assert_eq!(consumer.datagram(), Ok(None));
    let sent = producer.push_datagram(DatagramHead::default(), &parts[..1]);
    assert_eq!((sent, producer.faulted()), (Ok(true), false));
    let head = consumer.datagram().unwrap().unwrap();
    assert_eq!(consumer.peek_datagram(&head, 0, pages.room(END, 10)), Ok(0));
    assert!(consumer.faulted());
}
