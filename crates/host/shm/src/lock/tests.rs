use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::memory::Segment;
use crate::{SessionView, Words};

/// The words of a session in memory that forked processes share.
fn session() -> SessionView {
    let (memory, _fd) = Segment::create("lock", 4096).unwrap();
    Arc::new(memory).session(0).unwrap()
}

/// Runs `child` in a forked process, which ends without touching anything else of this one.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child calls only functions of this crate that neither allocate nor take locks of
    // this process, and then leaves.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        pid => {
            assert!(pid > 0);
            pid
        }
    }
}

fn reap(pid: libc::pid_t) {
    // SAFETY: a child of ours; no status is asked for.
    assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
}

/// Waits until the child has ended, but leaves it a zombie.
fn wait_for_zombie(pid: libc::pid_t) {
    // SAFETY: a zeroed `siginfo_t` is one.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: a child of ours, and a place for what is said of it.
    assert_eq!(unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, options) }, 0);
}

#[test]
fn a_lock_has_one_holder() {
    let word = AtomicU32::new(0);
    let guard = try_lock(&word).unwrap();
    assert!(try_lock(&word).is_none());
    drop(guard);
    assert!(try_lock(&word).is_some());
    drop(lock(&word));
    assert_eq!(word.load(Ordering::Relaxed), 0);
}

#[test]
fn threads_take_turns() {
    let session = session();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let _guard = lock(&session.rx_lock);
                    let value = session.flags.load(Ordering::Relaxed);
                    std::hint::spin_loop();
                    session.flags.store(value + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(session.flags.load(Ordering::Relaxed), 8000);
    assert_eq!(session.rx_lock.load(Ordering::Relaxed), 0);
}

#[test]
fn who_waits_long_gets_it_in_the_end() {
    let session = session();
    let guard = lock(&session.tx_lock);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let _guard = lock(&session.tx_lock);
                done.store(true, Ordering::Relaxed);
            });
        }
        // Until somebody sleeps.
        while session.tx_lock.load(Ordering::Relaxed) & WAITERS == 0 {
            thread::yield_now();
        }
        thread::sleep(std::time::Duration::from_millis(60));
        assert!(!done.load(Ordering::Relaxed), "a holder that lives keeps it, however long");
        drop(guard);
    });
    assert!(done.load(Ordering::Relaxed));
}

#[test]
fn processes_take_turns() {
    let session = session();
    let work = |session: &SessionView| {
        for _ in 0..2000 {
            let _guard = lock(&session.rx_lock);
            let value = session.flags.load(Ordering::Relaxed);
            session.flags.store(value + 1, Ordering::Relaxed);
        }
    };
    let children = [(); 2].map(|()| fork(|| work(&session)));
    work(&session);
    children.into_iter().for_each(reap);
    assert_eq!(session.flags.load(Ordering::Relaxed), 6000);
}

#[test]
fn the_lock_of_a_dead_process_is_taken_over() {
    let session = session();
    let pid = fork(|| std::mem::forget(lock(&session.rx_lock)));
    reap(pid);
    assert_eq!(
        session.rx_lock.load(Ordering::Relaxed) & 0x3f_ffff,
        pid as u32,
        "the child names itself, not its parent"
    );
    assert!(try_lock(&session.rx_lock).is_none());
    drop(lock(&session.rx_lock));
    assert_eq!(session.rx_lock.load(Ordering::Relaxed), 0);
}

#[test]
fn the_lock_of_a_killed_process_that_nobody_has_reaped_is_taken_over() {
    let session = session();
    let pid = fork(|| {
        std::mem::forget(lock(&session.rx_lock));
        loop {
            std::hint::spin_loop();
        }
    });
    while session.rx_lock.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    // SAFETY: a child of ours, not reaped yet.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    wait_for_zombie(pid);
    drop(lock(&session.rx_lock));
    reap(pid);
}

#[test]
fn several_waiters_of_a_dead_holder_get_it_one_after_the_other() {
    let session = session();
    reap(fork(|| std::mem::forget(lock(&session.rx_lock))));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let _guard = lock(&session.rx_lock);
                    let value = session.flags.load(Ordering::Relaxed);
                    thread::yield_now();
                    session.flags.store(value + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(session.flags.load(Ordering::Relaxed), 400);
}

#[test]
fn the_lock_of_a_thread_that_ended_is_taken_over() {
    let session = session();
    thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(lock(&session.rx_lock)));
    });
    drop(lock(&session.rx_lock));
}

#[test]
fn nonsense_in_the_word_is_a_dead_holder() {
    // No thread has these numbers: Linux gives none above 2^22 - 1, and none is 0.
    for word in [WAITERS, 1 << 22, WAITERS | (511 << 22)] {
        let word = AtomicU32::new(word);
        drop(lock(&word));
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn memory_of_a_session_can_be_mapped_twice() {
    let (memory, fd) = Segment::create("lock", 4096).unwrap();
    let ours: SessionView = Arc::new(memory).session(0).unwrap();
    let theirs: Words<_> = Arc::new(Segment::map(fd.as_fd(), 4096).unwrap()).session(0).unwrap();
    let guard = lock(&ours.rx_lock);
    assert!(try_lock(&theirs.rx_lock).is_none());
    drop(guard);
    assert!(try_lock(&theirs.rx_lock).is_some());
}
