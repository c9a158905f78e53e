use rustix::event::{PollFd, PollFlags};

use super::*;

fn rings(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    fds[0].revents().contains(PollFlags::IN)
}

#[test]
fn a_bell_rings_until_it_is_silenced() {
    let bell = Bell::new().unwrap();
    assert!(!rings(&bell));
    bell.ring();
    bell.clone().ring();
    assert!(rings(&bell));
    bell.silence();
    assert!(!rings(&bell));
    bell.silence();
    bell.ring();
    assert!(rings(&bell));
}

#[test]
fn a_full_counter_rings_and_does_not_block() {
    let bell = Bell::new().unwrap();
    rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    bell.ring();
    assert!(rings(&bell));
}

#[test]
fn a_ringer_rings_the_bell_at_the_other_end() {
    let (ringer, fd) = Ringer::new().unwrap();
    let bell = Bell::from_fd(fd);
    assert!(!rings(&bell));
    for _ in 0..200 {
        assert!(ringer.ring());
    }
    assert!(rings(&bell));
    bell.silence();
    assert!(!rings(&bell));
    assert!(ringer.ring());
    assert!(rings(&bell));
}

#[test]
fn a_ringer_never_blocks_whatever_the_process_does_to_its_end() {
    let (ringer, fd) = Ringer::new().unwrap();
    rustix::io::ioctl_fionbio(&fd, false).unwrap();
    // Nobody listens: the socket fills up.
    for _ in 0..10_000 {
        assert!(ringer.ring());
    }
    let bell = Bell::from_fd(fd);
    assert!(rings(&bell));
    drop(bell);
    assert!(!ringer.ring(), "nobody has the bell any more");
}

#[test]
fn a_belfry_hears_each_bell_without_reading_it() {
    let belfry = Belfry::new().unwrap();
    let bells = [Bell::new().unwrap(), Bell::new().unwrap()];
    for bell in &bells {
        belfry.add(bell).unwrap();
    }
    assert!(!rings(&belfry));
    for bell in [&bells[0], &bells[1], &bells[0], &bells[0]] {
        bell.ring();
        assert!(rings(&belfry), "a bell that was never silenced rings again");
        belfry.settle();
        assert!(!rings(&belfry));
    }
    belfry.remove(&bells[0]).unwrap();
    bells[0].ring();
    assert!(!rings(&belfry));
}

#[test]
fn a_process_can_silence_only_its_own_bell() {
    let belfry = Belfry::new().unwrap();
    let (hostile, other) = (Bell::new().unwrap(), Bell::new().unwrap());
    belfry.add(&hostile).unwrap();
    belfry.add(&other).unwrap();
    hostile.ring();
    other.ring();
    rustix::io::ioctl_fionbio(&hostile, false).unwrap();
    hostile.silence_once();
    assert!(rings(&belfry));
    belfry.settle();
    assert!(!rings(&belfry), "and nothing blocks, however the hostile one set its descriptor");
}

#[test]
fn more_bells_than_are_heard_at_once_are_heard_later() {
    let belfry = Belfry::new().unwrap();
    let bells: Vec<Bell> = (0..SETTLE + 10).map(|_| Bell::new().unwrap()).collect();
    for bell in &bells {
        belfry.add(bell).unwrap();
        bell.ring();
    }
    belfry.settle();
    assert!(rings(&belfry));
    belfry.settle();
    assert!(!rings(&belfry));
}

impl Bell {
    fn silence_once(&self) {
        rustix::io::read(&*self.0, &mut [0; 8]).unwrap();
    }
}
