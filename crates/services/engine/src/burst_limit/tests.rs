use super::*;

fn limit_behind(turns: &[usize]) -> usize {
    let mut limit = BurstLimit::new();
    for packets in turns {
        limit.turn(*packets);
    }
    limit.get()
}

#[test]
fn half_of_what_came_at_once_is_taken_next_time() {
    assert_eq!(limit_behind(&[]), BURST);
    assert_eq!(limit_behind(&[0, 0]), BURST);
    assert_eq!(limit_behind(&[64, 0]), 32);
    assert_eq!(limit_behind(&[16, 0, 0]), 8);
    assert_eq!(limit_behind(&[8, 8, 8, 8, 0]), 16);
    assert_eq!(limit_behind(&[16, 0, 64, 64, 0]), BURST);
}

#[test]
fn only_a_moment_without_packets_ends_a_train() {
    assert_eq!(limit_behind(&[16, 0, 40, 40]), 8);
}

#[test]
fn few_are_taken_together_and_long_trains_in_whole_bursts() {
    assert_eq!(limit_behind(&[1, 0]), LEAST);
    assert_eq!(limit_behind(&[7, 0]), LEAST);
    assert_eq!(limit_behind(&[64, 64, 1, 0]), BURST);
}
