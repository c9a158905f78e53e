use std::os::fd::AsRawFd;

use rustix::event::{EventfdFlags, epoll as set, eventfd};

use super::*;

fn counter(value: u32) -> std::os::fd::OwnedFd {
    eventfd(value, EventfdFlags::CLOEXEC).unwrap()
}

#[test]
fn poll_finds_what_is_ready_and_what_is_no_descriptor() {
    let (silent, ringing) = (counter(0), counter(1));
    let entry = |fd| PollFd { fd, events: libc::POLLIN, found: 0 };
    let mut fds =
        [entry(silent.as_raw_fd()), entry(ringing.as_raw_fd()), entry(i32::MAX), entry(-1)];
    assert_eq!(poll(&mut fds, None, None).unwrap(), 2);
    assert_eq!(fds.map(|entry| entry.found), [0, libc::POLLIN, libc::POLLNVAL, 0]);
}

#[test]
fn poll_ends_when_the_time_is_over() {
    let silent = counter(0);
    let mut fds = [PollFd { fd: silent.as_raw_fd(), events: libc::POLLIN, found: 0 }];
    assert_eq!(poll(&mut fds, Some(Duration::from_micros(1)), Some(0)).unwrap(), 0);
}

#[test]
fn epoll_finds_members_by_their_word() {
    let (all, ringing) = (set::create(set::CreateFlags::CLOEXEC).unwrap(), counter(1));
    set::add(&all, &ringing, set::EventData::new_u64(7), set::EventFlags::IN).unwrap();
    let mut out = [EpollEvent::default(); 4];
    assert_eq!(epoll(all.as_raw_fd(), &mut out, Some(Duration::MAX), None).unwrap(), 1);
    let found = out[0];
    assert_eq!({ found.data }, 7);
}

#[test]
fn what_is_no_epoll_set_is_an_error() {
    let ringing = counter(1);
    let error = epoll(ringing.as_raw_fd(), &mut [EpollEvent::default()], None, None).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}
