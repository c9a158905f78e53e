use super::*;

fn quota(sessions: u32) -> Arc<Quota> {
    Quota::host([sessions; Thing::ALL.len()], 1 << 30, 1)
}

fn some(fds: &SessionFds, count: u32) -> Vec<(u32, Arc<AtomicU64>)> {
    let made = (0..count).map(|_| Arc::<AtomicU64>::default());
    made.map(|word| (fds.add(&word), word)).collect()
}

#[test]
fn a_session_fd_is_claimed_or_ends() {
    let fds = SessionFds::default();
    let made = some(&fds, 2);
    assert_eq!(fds.claim(made[0].0, 7), Claimed::Free);
    assert_eq!(made[0].1.load(Ordering::Relaxed), 7);
    assert_eq!(fds.end(made[0].0), 7);
    assert_eq!(fds.end(made[1].0), 0);
    assert_eq!(fds.claim(made[1].0, 9), Claimed::Gone, "nobody holds it any more");
    assert_eq!(made[1].1.load(Ordering::Relaxed), 0);
    assert_eq!(fds.room(), MAX_AHEAD);
}

#[test]
fn a_session_fd_serves_one_session_after_the_other() {
    let (fds, quota) = (SessionFds::default(), quota(100));
    let made = some(&fds, 1);
    let name = made[0].0;
    for session in 1..4 {
        assert_eq!(fds.claim(name, session), Claimed::Free);
        fds.release(name, session, &quota);
        assert_eq!(fds.room(), MAX_AHEAD - 1);
    }
    // What is free is not freed once more, whatever a message names.
    fds.release(name, 0, &quota);
    assert_eq!(fds.room(), MAX_AHEAD - 1);
    // The end of one session is heard behind the claim of the next: on another worker, by another
    // ring.
    assert_eq!(fds.claim(name, 7), Claimed::Free);
    assert_eq!(fds.claim(name, 8), Claimed::Instead(7));
    fds.release(name, 7, &quota);
    assert_eq!(fds.end(name), 8, "what it stands for now is not freed by the end of another");
}

#[test]
fn free_session_fds_beyond_what_may_be_held_ahead_count_as_sessions() {
    let (fds, quota) = (SessionFds::default(), quota(100));
    let made = some(&fds, MAX_AHEAD + 5);
    for (name, _) in &made {
        fds.claim(*name, u64::from(*name) + 1);
    }
    for (name, _) in &made {
        fds.release(*name, u64::from(*name) + 1, &quota);
    }
    assert_eq!((fds.room(), quota.count(Thing::Session)), (0, 5));
    for (name, _) in &made[MAX_AHEAD as usize..] {
        assert_eq!(fds.end(*name), 0);
    }
    assert_eq!((fds.room(), quota.count(Thing::Session)), (0, 0));
}
