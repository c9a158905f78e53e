use rustix::event::{PollFd, PollFlags};

use super::*;

fn rings(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    fds[0].revents().contains(PollFlags::IN)
}

#[test]
fn a_notifier_rings_until_it_is_silenced() {
    let notifier = Notifier::new().unwrap();
    assert!(!rings(&notifier));
    notifier.notify();
    notifier.clone().notify();
    assert!(rings(&notifier));
    notifier.clear();
    assert!(!rings(&notifier));
    notifier.clear();
    notifier.notify();
    assert!(rings(&notifier));
}

#[test]
fn a_full_counter_rings_and_does_not_block() {
    let notifier = Notifier::new().unwrap();
    rustix::io::write(&notifier, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    notifier.notify();
    assert!(rings(&notifier));
}

#[test]
fn a_remote_notifier_rings_the_notifier_at_the_other_end() {
    let (remote_notifier, fd) = RemoteNotifier::new().unwrap();
    let notifier = Notifier::from_fd(fd);
    assert!(!rings(&notifier));
    for _ in 0..200 {
        assert!(remote_notifier.notify());
    }
    assert!(rings(&notifier));
    notifier.clear();
    assert!(!rings(&notifier));
    assert!(remote_notifier.notify());
    assert!(rings(&notifier));
}

#[test]
fn a_remote_notifier_never_blocks_whatever_the_process_does_to_its_end() {
    let (remote_notifier, fd) = RemoteNotifier::new().unwrap();
    rustix::io::ioctl_fionbio(&fd, false).unwrap();
    // Nobody listens: the socket fills up.
    for _ in 0..10_000 {
        assert!(remote_notifier.notify());
    }
    let notifier = Notifier::from_fd(fd);
    assert!(rings(&notifier));
    drop(notifier);
    assert!(!remote_notifier.notify(), "nobody has the notifier any more");
}

#[test]
fn a_notifier_set_hears_each_notifier_without_reading_it() {
    let notifier_set = NotifierSet::new().unwrap();
    let notifiers = [Notifier::new().unwrap(), Notifier::new().unwrap()];
    for notifier in &notifiers {
        notifier_set.add(notifier).unwrap();
    }
    assert!(!rings(&notifier_set));
    for notifier in [&notifiers[0], &notifiers[1], &notifiers[0], &notifiers[0]] {
        notifier.notify();
        assert!(rings(&notifier_set), "a notifier that was never silenced rings again");
        notifier_set.settle();
        assert!(!rings(&notifier_set));
    }
    notifier_set.remove(&notifiers[0]).unwrap();
    notifiers[0].notify();
    assert!(!rings(&notifier_set));
}

#[test]
fn a_process_can_silence_only_its_own_notifier() {
    let notifier_set = NotifierSet::new().unwrap();
    let (hostile, other) = (Notifier::new().unwrap(), Notifier::new().unwrap());
    notifier_set.add(&hostile).unwrap();
    notifier_set.add(&other).unwrap();
    hostile.notify();
    other.notify();
    rustix::io::ioctl_fionbio(&hostile, false).unwrap();
    hostile.silence_once();
    assert!(rings(&notifier_set));
    notifier_set.settle();
    assert!(
        !rings(&notifier_set),
        "and nothing blocks, however the hostile one set its descriptor"
    );
}

#[test]
fn more_notifiers_than_are_heard_at_once_are_heard_later() {
    let notifier_set = NotifierSet::new().unwrap();
    let notifiers: Vec<Notifier> = (0..SETTLE + 10).map(|_| Notifier::new().unwrap()).collect();
    for notifier in &notifiers {
        notifier_set.add(notifier).unwrap();
        notifier.notify();
    }
    notifier_set.settle();
    assert!(rings(&notifier_set));
    notifier_set.settle();
    assert!(!rings(&notifier_set));
}

impl Notifier {
    fn silence_once(&self) {
        rustix::io::read(&*self.0, &mut [0; 8]).unwrap();
    }
}
