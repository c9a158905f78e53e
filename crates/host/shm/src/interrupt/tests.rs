use std::mem::zeroed;
use std::ptr::null_mut;
use std::time::Duration;

use super::*;
use crate::wait::{self, PollFd};

/// A handler runs, with SA_RESTART or without.
fn handler(restarts: bool) {
    // SAFETY: null.
    unsafe { handled(restarts, null_mut()) };
}

/// Sleeps without end, unless it is interrupted.
fn sleep() -> io::Result<usize> {
    wait::sleep_poll(&mut [], None, None)
}

fn is_interrupted(slept: io::Result<usize>) -> bool {
    slept.is_err_and(|error| error.raw_os_error() == Some(libc::EINTR))
}

#[test]
fn a_handler_that_ran_before_the_sleep_ends_it() {
    let call = enter();
    assert!(!came());
    handler(false);
    assert!(came());
    assert!(is_interrupted(sleep()));
    leave(call);
}

#[test]
fn a_handler_that_ran_before_the_call_ends_it_where_that_was_held() {
    handler(false);
    hold();
    handler(false);
    let call = enter();
    assert!(is_interrupted(sleep()));
    leave(call);
    // For one call only.
    let call = enter();
    assert!(!came());
    leave(call);
}

#[test]
fn a_look_without_waiting_is_not_interrupted() {
    let call = enter();
    handler(false);
    let mut fds = [PollFd { fd: -1, events: 0, found: 0 }];
    assert_eq!(wait::sleep_poll(&mut fds, Some(Duration::ZERO), None).unwrap(), 0);
    leave(call);
}

#[test]
fn a_handler_that_ran_before_the_call_ends_nothing() {
    handler(false);
    let call = enter();
    assert_eq!(wait::sleep_poll(&mut [], Some(Duration::from_micros(1)), None).unwrap(), 0);
    assert_eq!(restarts(), None);
    leave(call);
}

#[test]
fn a_call_begins_again_after_handlers_that_all_have_sa_restart() {
    let call = enter();
    handler(true);
    handler(true);
    assert_eq!(restarts(), Some(true));
    assert!(!came(), "they are forgotten");
    handler(true);
    handler(false);
    assert_eq!(restarts(), Some(false));
    leave(call);
}

#[test]
fn a_call_in_a_handler_leaves_the_interrupted_call_interrupted() {
    let outer = enter();
    handler(false);
    let inner = enter();
    assert!(!came());
    leave(inner);
    assert!(is_interrupted(sleep()));
    leave(outer);
}

#[test]
fn who_is_interrupted_between_the_comparison_and_the_kernel_goes_past_it() {
    // SAFETY: all of it are numbers and pointers that may be null.
    let mut context: libc::ucontext_t = unsafe { zeroed() };
    let mut after = |address: usize| {
        code::places::set(&mut context, address);
        // SAFETY: a context that lives.
        unsafe { handled(true, (&raw mut context).cast()) };
        code::places::of(&mut context)
    };
    let (checked, called) = (code::places::checked(), code::places::called());
    assert!(checked < called);
    for address in checked..called {
        assert_eq!(after(address), code::places::interrupted());
    }
    for address in [checked - 1, called, code::places::interrupted()] {
        assert_eq!(after(address), address);
    }
}

#[test]
fn signals_at_any_moment_end_the_sleep_that_they_fall_into() {
    const ROUNDS: u64 = 2_000;
    extern "C" fn counted(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the kernel gave.
        unsafe { handled(false, context) };
    }
    // SAFETY: a handler of the right type; the signal is nobody else's in this process.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = counted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGRTMIN() + 3, &action, null_mut()), 0);
    }
    // SAFETY: takes nothing.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    // SAFETY: all of it are numbers and pointers that may be null.
    let mut event: libc::sigevent = unsafe { zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGRTMIN() + 3;
    event.sigev_notify_thread_id = thread;
    let mut timer = null_mut();
    // SAFETY: the places are ours.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    assert_eq!(made, 0, "of {process}");
    for round in 0..ROUNDS {
        let call = enter();
        let time = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: 0, tv_nsec: 1 + (round as i64 * 37) % 20_000 },
        };
        // One signal for each round, wherever it falls: before the sleep, on the way into the
        // kernel, or in it. If it were lost this would never end.
        // SAFETY: the timer is ours, and the time lives.
        assert_eq!(unsafe { libc::timer_settime(timer, 0, &raw const time, null_mut()) }, 0);
        assert!(is_interrupted(sleep()));
        leave(call);
    }
    // SAFETY: the timer is ours.
    unsafe { libc::timer_delete(timer) };
}
