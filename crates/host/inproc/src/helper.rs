//! The one thread of the stack's own. It turns only when no thread of the program waits for the
//! stack and none has turned it for a while: when the program computes, or waits for something
//! else. While threads of the program sleep on the stack it is *parked*, and costs nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread;
use std::time::Duration;

use clearway_shm::in_process::OnEvents;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::SigSet;

use crate::drive::Stack;

/// Nobody has turned the stack for so long: it is turned here.
const IDLE_BEFORE_TURN: Duration = Duration::from_millis(10);

/// The same while threads sleep aside, and who was to watch has not come.
const ASIDE_BEFORE_TURN: Duration = Duration::from_millis(1);

/// Where the thread waits while others sleep on the stack.
pub(crate) struct Parking {
    is_parked: AtomicBool,
    notifier: EventFd,
}

impl Parking {
    pub(crate) fn new() -> io::Result<Parking> {
        let notifier =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Parking { is_parked: AtomicBool::new(false), notifier })
    }

    /// Nobody sleeps on the stack any more.
    pub(crate) fn unpark(&self) {
        if self.is_parked.load(Ordering::Relaxed) && self.is_parked.swap(false, Ordering::AcqRel) {
            // A counter that is full is readable already.
            let _ = self.notifier.write(1);
        }
    }
}

/// Starts the thread. No signal is delivered to it: handlers are the program's.
pub(crate) fn start(stack: &'static Stack, on_events: OnEvents) -> io::Result<()> {
    let before = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)?;
    let started =
        thread::Builder::new().name("clearway".into()).spawn(move || run(stack, on_events));
    before.thread_set_mask()?;
    started.map(drop)
}

fn run(stack: &'static Stack, on_events: OnEvents) {
    let notifier = stack.parking.notifier.as_fd().as_raw_fd();
    let mut turns = stack.turns();
    loop {
        // Also after it was called from where it was parked: so that is called a hundred times a
        // second at most (a thousand times while some sleep aside), however often the program's
        // threads sleep and wake.
        let some_aside = stack.has_some_aside();
        poll_for(&[], Some(if some_aside { ASIDE_BEFORE_TURN } else { IDLE_BEFORE_TURN }));
        if stack.is_slept_on() {
            park(stack, notifier, on_events);
        } else if stack.turns() == turns {
            stand_in(stack, on_events, some_aside);
        }
        turns = stack.turns();
    }
}

/// Waits until nobody sleeps on the stack, and sees to what only the supervisor is told of
/// meanwhile: another process was the last to hold a socket.
fn park(stack: &'static Stack, notifier: RawFd, on_events: OnEvents) {
    stack.parking.is_parked.store(true, Ordering::Release);
    fence(Ordering::SeqCst);
    while stack.is_slept_on() && stack.parking.is_parked.load(Ordering::Acquire) {
        poll_for(&[notifier, stack.supervisor_fd], None);
        if is_readable(stack.supervisor_fd) {
            stack.turn(true);
            on_events();
        }
    }
    stack.parking.is_parked.store(false, Ordering::Release);
    let _ = stack.parking.notifier.read();
}

/// Sleeps on the stack in place of the program's threads, until one of them turns it again.
fn stand_in(stack: &'static Stack, on_events: OnEvents, mut some_aside: bool) {
    loop {
        let turns = stack.turns();
        if stack.about_to_stand_in() {
            let slept_at = stack.turns();
            stack.sleep(Duration::MAX);
            let is_alone = stack.turns() == slept_at;
            stack.stood_in();
            stack.turn(true);
            on_events();
            if !is_alone {
                return;
            }
        } else {
            // What was for threads that are awake would have waited for those all the same.
            let woke_some = on_events() != 0;
            if std::mem::take(&mut some_aside) && woke_some {
                stack.nobody_came();
            }
            if stack.turns() != turns + 1 {
                return;
            }
        }
    }
}

/// Waits for a descriptor; None: without end.
pub(crate) fn poll_for(fds: &[RawFd], most: Option<Duration>) {
    use clearway_shm::wait::{self, PollFd};
    let mut all: Vec<PollFd> =
        fds.iter().map(|&fd| PollFd { fd, events: libc::POLLIN, found: 0 }).collect();
    // A time that the kernel does not know is without end; who is interrupted looks again.
    let most = most.filter(|most| *most < Duration::from_secs(365 * 86_400));
    let _ = wait::poll(&mut all, most, None);
}

fn is_readable(fd: RawFd) -> bool {
    use clearway_shm::wait::{self, PollFd};
    let mut one = [PollFd { fd, events: libc::POLLIN, found: 0 }];
    matches!(wait::poll(&mut one, Some(Duration::ZERO), None), Ok(1))
}
