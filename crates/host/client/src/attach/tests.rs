use std::os::fd::AsFd;

use clearway_shm::{HostPage, RingConsumer, sleep};

use super::*;

/// An attachment to one worker that somebody plays: its page, its end of the ring, and its
/// notifier.
fn attachment() -> (Attachment, HostPage, RingConsumer, OwnedFd) {
    let (page, page_fd) = HostPage::create(1, 1).unwrap();
    let host =
        Arc::new(Segment::map_read_only(page_fd.as_fd(), page.len()).unwrap()).host().unwrap();
    let memory = Arc::new(Segment::create("ring", 1 << 14).unwrap().0);
    let ring = Mutex::new(RingProducer::new(&memory, 0, 64).unwrap());
    let taken = RingConsumer::new(&memory, 0, 64).unwrap();
    let counter = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let notifier = Internal::new(counter.try_clone().unwrap());
    let worker =
        Worker { ring, notifier, owed: AtomicBool::new(false), notified_in: AtomicU64::new(0) };
    let attachment = Attachment {
        number: 1,
        program: (1, 1),
        process: 1,
        token: Token([0; 16]),
        host,
        fifo_sizes: (0, 0),
        requests: vec![worker],
        owes_notification: AtomicBool::new(false),
        dead: AtomicBool::new(false),
    };
    (attachment, page, taken, counter)
}

/// How often the worker was notified since this was last asked.
fn notifications(counter: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(counter, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

fn say(attachment: &Attachment, times: u32) {
    for aux in 0..times {
        attachment.push(Message { session: 0, what: 1, aux }, || {});
    }
}

fn hear(ring: &mut RingConsumer) -> usize {
    std::iter::from_fn(|| ring.pop().unwrap()).count()
}

#[test]
fn a_worker_is_notified_once_for_each_of_its_sleeps_and_not_while_it_is_awake() {
    let (attachment, page, mut ring, counter) = attachment();
    say(&attachment, 5);
    assert_eq!((notifications(&counter), hear(&mut ring)), (0, 5));
    for _ in 0..3 {
        sleep::doze(page.sleeps(0));
        say(&attachment, 5);
        assert_eq!(notifications(&counter), 1);
        sleep::rise(page.sleeps(0));
        say(&attachment, 5);
        assert_eq!((notifications(&counter), hear(&mut ring)), (0, 10));
    }
}

#[test]
fn workers_are_notified_of_what_was_left_quietly_unless_they_were_already() {
    let (attachment, page, mut ring, counter) = attachment();
    let quiet = Message { session: 0, what: 1, aux: 0 };
    sleep::doze(page.sleeps(0));
    attachment.push_quietly(quiet, || {});
    assert_eq!(notifications(&counter), 0);
    attachment.notify_owed_workers();
    attachment.notify_owed_workers();
    assert_eq!((notifications(&counter), hear(&mut ring)), (1, 1));
    // Notified already in this sleep.
    attachment.push_quietly(quiet, || {});
    attachment.notify_owed_workers();
    assert_eq!((notifications(&counter), hear(&mut ring)), (0, 1));
    // Awake by the time that the process sleeps: it looks by itself.
    sleep::rise(page.sleeps(0));
    sleep::doze(page.sleeps(0));
    attachment.push_quietly(quiet, || {});
    sleep::rise(page.sleeps(0));
    attachment.notify_owed_workers();
    assert_eq!((notifications(&counter), hear(&mut ring)), (0, 1));
}
