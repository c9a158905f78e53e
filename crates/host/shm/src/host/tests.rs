use std::os::fd::AsFd;

use super::*;

#[test]
fn processes_read_what_the_host_writes() {
    let (page, fd) = HostPage::create(42, 3).unwrap();
    let memory = Arc::new(Segment::map_read_only(fd.as_fd(), page.len()).unwrap());
    let view = memory.host().unwrap();
    assert_eq!((view.boot(), view.workers(), view.routes()), (42, 3, 0));
    page.routes_changed();
    assert_eq!((view.routes(), page.routes()), (1, 1));
    crate::sleep::doze(page.sleeps(1));
    let asleep: Vec<bool> = (0..4).map(|worker| view.is_asleep(worker)).collect();
    assert_eq!(asleep, [false, true, false, false], "and there is no fourth worker");
    crate::sleep::rise(page.sleeps(1));
    assert!(!view.is_asleep(1));
}

#[test]
fn processes_cannot_write_it() {
    let (page, fd) = HostPage::create(42, 1).unwrap();
    assert!(Segment::map(fd.as_fd(), page.len()).is_err());
}

#[test]
fn other_memory_is_no_host_page() {
    assert!(matches!(Arc::new(Segment::on_heap(4096)).host(), Err(ShmError::Version)));
    assert!(Arc::new(Segment::on_heap(32)).host().is_err());
    let (page, fd) = HostPage::create(1, 1).unwrap();
    page.head.version.store(VERSION + 1, Ordering::Relaxed);
    let memory = Arc::new(Segment::map_read_only(fd.as_fd(), page.len()).unwrap());
    assert!(matches!(memory.host(), Err(ShmError::Version)));
}

#[test]
fn more_workers_than_the_page_has_are_refused() {
    let (page, fd) = HostPage::create(1, 1).unwrap();
    page.head.workers.store(u32::MAX, Ordering::Relaxed);
    let memory = Arc::new(Segment::map_read_only(fd.as_fd(), page.len()).unwrap());
    assert!(matches!(memory.host(), Err(ShmError::Place { .. })));
    assert!(HostPage::create(1, 0).is_err());
    assert!(HostPage::create(1, MAX_WORKERS + 1).is_err());
    assert!(HostPage::create(1, MAX_WORKERS).is_ok());
}
