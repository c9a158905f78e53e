use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::SealFlags;

use super::*;

const PAGE: usize = 4096;

fn first_word(segment: &Arc<Segment>) -> Words<crate::layout::FifoHead> {
    segment.words(0).unwrap()
}

#[test]
fn what_one_side_writes_the_other_reads() {
    let (ours, fd) = Segment::create("test", PAGE).unwrap();
    let theirs = Arc::new(Segment::map(fd.as_fd(), PAGE).unwrap());
    first_word(&Arc::new(ours)).tail.store(7, Ordering::Relaxed);
    assert_eq!(first_word(&theirs).tail.load(Ordering::Relaxed), 7);
}

#[test]
fn the_size_is_sealed() {
    let (_ours, fd) = Segment::create("test", PAGE).unwrap();
    assert!(rustix::fs::ftruncate(&fd, 0).is_err());
    assert!(rustix::fs::ftruncate(&fd, 2 * PAGE as u64).is_err());
    assert!(rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE).is_err(), "no further seals");
}

#[test]
fn readers_cannot_map_for_writing() {
    let (ours, fd) = Segment::create_for_readers("test", PAGE).unwrap();
    assert!(matches!(Segment::map(fd.as_fd(), PAGE), Err(ShmError::Io(_))));
    assert!(rustix::io::write(&fd, b"x").is_err());
    let theirs = Arc::new(Segment::map_read_only(fd.as_fd(), PAGE).unwrap());
    let ours = Arc::new(ours);
    first_word(&ours).tail.store(7, Ordering::Relaxed);
    let words: Words<crate::layout::FifoHead> = Words::new(&theirs, 0).unwrap();
    assert_eq!(words.tail.load(Ordering::Relaxed), 7);
}

#[test]
fn words_that_could_be_written_are_refused_in_memory_that_cannot() {
    let (_ours, fd) = Segment::create("test", PAGE).unwrap();
    let theirs = Arc::new(Segment::map_read_only(fd.as_fd(), PAGE).unwrap());
    assert!(matches!(theirs.session(0), Err(ShmError::Io(_))));
    assert!(matches!(theirs.queue_pair(), Err(ShmError::Io(_))));
    assert!(theirs.give_back(0, PAGE).is_err());
}

#[test]
fn a_wrong_size_is_refused() {
    let (_ours, fd) = Segment::create("test", PAGE).unwrap();
    for said in [0, PAGE - 1, 2 * PAGE, usize::MAX] {
        assert!(
            matches!(Segment::map(fd.as_fd(), said), Err(ShmError::Size { is: 4096, .. })),
            "{said}"
        );
    }
}

#[test]
fn memory_without_seals_is_refused() {
    let fd =
        rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, PAGE as u64).unwrap();
    assert!(matches!(Segment::map(fd.as_fd(), PAGE), Err(ShmError::Unsealed)));
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    assert!(matches!(Segment::map(fd.as_fd(), PAGE), Err(ShmError::Unsealed)));
}

#[test]
fn files_that_are_no_memory_are_refused() {
    let file =
        rustix::fs::open("/proc/self/exe", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .unwrap();
    let len = rustix::fs::fstat(&file).unwrap().st_size as usize;
    assert!(matches!(Segment::map(file.as_fd(), len), Err(ShmError::Unsealed)));
}

#[test]
fn a_length_that_offsets_cannot_name_is_refused() {
    assert!(Segment::create("test", 0).is_err());
    assert!(Segment::create("test", MAX_SEGMENT + 1).is_err());
}

#[test]
fn places_outside_or_between_are_refused() {
    let segment = Arc::new(Segment::on_heap(PAGE));
    assert!(segment.session((PAGE - size_of::<crate::layout::SessionHead>()) as u32).is_ok());
    for offset in
        [1, 8, 32, PAGE as u32 - 64, PAGE as u32, PAGE as u32 + 64, u32::MAX, u32::MAX - 63]
    {
        assert!(matches!(segment.session(offset), Err(ShmError::Place { .. })), "{offset}");
    }
}

#[test]
fn pages_that_were_given_back_read_as_zero() {
    let (ours, fd) = Segment::create("test", 4 * PAGE).unwrap();
    let ours = Arc::new(ours);
    let words: Vec<Words<crate::layout::FifoHead>> =
        (0..4).map(|page| ours.words(page * PAGE as u32).unwrap()).collect();
    for word in &words {
        word.tail.store(7, Ordering::Relaxed);
    }
    let blocks = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_blocks;
    assert_eq!(blocks(&fd), 4 * PAGE as i64 / 512);
    ours.give_back(PAGE as u32, 2 * PAGE).unwrap();
    assert_eq!(blocks(&fd), 2 * PAGE as i64 / 512, "the system has them again");
    let values: Vec<u32> = words.iter().map(|word| word.tail.load(Ordering::Relaxed)).collect();
    assert_eq!(values, [7, 0, 0, 7]);
}

#[test]
fn giving_back_what_is_outside_is_refused() {
    let (ours, _fd) = Segment::create("test", 2 * PAGE).unwrap();
    assert!(ours.give_back(0, 3 * PAGE).is_err());
    assert!(ours.give_back(3 * PAGE as u32, 0).is_err());
    assert!(ours.give_back(PAGE as u32, usize::MAX).is_err());
    assert!(ours.give_back(2 * PAGE as u32, 0).is_ok(), "nothing at the end");
}

#[test]
fn memory_stays_mapped_as_long_as_somebody_looks_at_it() {
    let (ours, fd) = Segment::create("test", PAGE).unwrap();
    let ours = Arc::new(ours);
    let word = first_word(&ours);
    drop((ours, fd));
    word.tail.store(7, Ordering::Relaxed);
    assert_eq!(word.tail.load(Ordering::Relaxed), 7);
}
