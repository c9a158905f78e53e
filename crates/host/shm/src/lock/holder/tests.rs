use super::*;

#[test]
fn this_thread_lives_and_has_one_name() {
    let me = Holder::current();
    assert_eq!(me, Holder::current());
    assert_eq!(me.number(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
    assert!(me.birth() > 0, "/proc is there");
    assert!(me.is_alive());
}

#[test]
fn threads_have_different_names() {
    let other = std::thread::spawn(|| (Holder::current(), rustix::thread::gettid()));
    let (other, number) = other.join().unwrap();
    assert_ne!(other, Holder::current());
    assert_eq!(other.number(), number.as_raw_nonzero().get() as u32);
}

#[test]
fn a_number_that_another_thread_has_now_is_not_the_holder() {
    let me = Holder::current();
    let earlier = Holder(me.0 ^ (1 << NUMBER_BITS));
    assert!(earlier.birth() == 0 || !earlier.is_alive());
    let unknown = Holder(me.number());
    assert!(unknown.is_alive(), "without a birth mark the number must do");
}

#[test]
fn names_with_spaces_and_parentheses_are_read() {
    let line = b"12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20\n";
    let stat = Stat::parse(line).unwrap();
    assert!(!stat.dead);
    assert_eq!(stat.birth, 1 + 777 % 511);
    let zombie =
        Stat::parse(b"12 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20\n").unwrap();
    assert!(zombie.dead);
}

#[test]
fn lines_that_are_cut_off_say_nothing() {
    for line in [
        &b""[..],
        b"12 (x",
        b"12 (x)",
        b"12 (x) S 1 2 3",
        b"12 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x",
    ] {
        assert!(Stat::parse(line).is_none());
    }
}
