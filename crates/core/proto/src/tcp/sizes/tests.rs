use alloc::vec::Vec;

use super::*;

#[test]
fn windows_double_from_the_first_to_the_most_and_end_there() {
    let tcp = TcpConfig {
        max_receive_window: 5 << 20,
        initial_receive_window: 1 << 20,
        initial_send_buffer: 64 << 10,
        max_send_buffer: 1 << 20,
        ..TcpConfig::default()
    };
    let sizes = Sizes::new(&tcp);
    let grown: Vec<u32> = core::iter::successors(Some(INITIAL), |step| sizes.next(*step))
        .map(|s| sizes.window(s))
        .collect();
    assert_eq!(grown, [1 << 20, 2 << 20, 4 << 20, 5 << 20]);
    assert_eq!(
        (sizes.window(UNSCALED), sizes.next(UNSCALED)),
        (1 << 20, None),
        "16 bits say no more"
    );
    assert_eq!(
        (sizes.send_limit(0, 10_000, 0), sizes.send_limit(0, 100_000, 0)),
        (64 << 10, 200_000)
    );
    assert_eq!(sizes.send_limit(0, 1 << 30, 0), 1 << 20);
}

#[test]
fn a_size_that_is_asked_for_is_rounded_up_by_a_quarter_at_most_and_stays() {
    for size in [1, 1_024, 1_025, 65_535, 65_536, 87_380, 4_000_000, MOST - 1, MOST, u32::MAX] {
        let (wanted, got) =
            (u64::from(size.clamp(1_024, MOST)), u64::from(fixed_size(fixed_step(size))));
        assert!(got >= wanted && got <= wanted * 5 / 4 && got <= MOST.into(), "{got} for {size}");
    }
    assert_eq!((fixed_step(0), fixed_size(0)), (0, 0));
    let sizes = Sizes::new(&TcpConfig::default());
    let step = Sizes::first_step(fixed_step(1 << 20), true);
    assert_eq!((sizes.window(step), sizes.next(step)), (1 << 20, None));
    assert_eq!(sizes.send_limit(fixed_step(8 << 20), 1, 0), 8 << 20, "more than grows by itself");
}
