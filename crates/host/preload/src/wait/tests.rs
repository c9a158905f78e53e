use super::*;

/// Sets with these descriptors in them, in room for `bits` bits.
fn sets(bits: usize, members: [&[usize]; 3]) -> [Vec<c_ulong>; 3] {
    members.map(|members| {
        let mut words = vec![0; bits.div_ceil(WORD)];
        for fd in members {
            words[fd / WORD] |= 1 << (fd % WORD);
        }
        words
    })
}

fn view(count: c_int, words: &mut [Vec<c_ulong>; 3]) -> Sets {
    let [read, write, except] = words;
    Sets::new(
        count,
        [read.as_mut_ptr().cast(), write.as_mut_ptr().cast(), except.as_mut_ptr().cast()],
    )
}

#[test]
fn each_descriptor_is_wanted_once_for_all_that_it_is_wanted_for() {
    let mut words = sets(2048, [&[0, 5, 1500], &[5, 64], &[1500]]);
    let wanted: Vec<_> = view(2000, &mut words).wanted().collect();
    assert_eq!(wanted, [(0, IN), (5, IN | OUT), (64, OUT), (1500, IN | EXCEPT)]);
}

#[test]
fn descriptors_from_the_count_on_are_not_looked_at() {
    let mut words = sets(128, [&[3, 4, 70], &[], &[]]);
    assert_eq!(view(4, &mut words).wanted().map(|entry| entry.0).collect::<Vec<_>>(), [3]);
    assert_eq!(view(70, &mut words).wanted().count(), 2);
    assert_eq!(view(-1, &mut words).wanted().count(), 0);
}

#[test]
fn only_what_was_asked_for_is_stored() {
    let mut words = sets(128, [&[3, 4], &[4], &[5]]);
    let sets = view(128, &mut words);
    let both = (libc::POLLIN | libc::POLLOUT | libc::POLLERR) as u16;
    let found: Vec<_> =
        sets.wanted().map(|(fd, wanted)| (fd, wanted, if fd == 5 { 0 } else { both })).collect();
    assert_eq!(sets.store(&found), 3);
    assert_eq!((words[0][0], words[1][0], words[2][0]), (1 << 3 | 1 << 4, 1 << 4, 0));
}

#[test]
fn a_set_that_is_not_given_is_not_touched() {
    let mut read = vec![1 << 2; 1];
    let sets =
        Sets::new(64, [read.as_mut_ptr().cast(), std::ptr::null_mut(), std::ptr::null_mut()]);
    assert_eq!(sets.store(&[(2, IN, libc::POLLHUP as u16)]), 1, "a hang-up is readable");
    assert_eq!(read[0], 1 << 2);
}

#[test]
fn times_are_read_as_linux_does() {
    assert_eq!(limit_of_millis(-1), None);
    assert_eq!(limit_of_millis(1500), Some(Duration::from_millis(1500)));
    let bad = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
    // SAFETY: they are times.
    unsafe {
        assert_eq!(limit_of_timespec(std::ptr::null()), Ok(None));
        assert_eq!(limit_of_timespec(&bad), fail(libc::EINVAL));
    }
}
