use clearway_base::Rng;

use super::Spans;

#[test]
fn spans_are_a_set_of_places() {
    let mut rng = Rng::seed(3);
    for _ in 0..200 {
        let mut spans = Spans::default();
        let mut model = [false; 64];
        for _ in 0..rng.between(1, 12) {
            let start = rng.below(60) as usize;
            let end = start + rng.below(8).min(64 - start as u64) as usize;
            spans.insert(start as i64, end as i64);
            model[start..end].fill(true);
        }
        for start in 0..64 {
            for end in start..=64 {
                let count = model[start..end].iter().filter(|m| **m).count();
                assert_eq!(spans.overlap(start as i64, end as i64), count as i64);
                assert_eq!(spans.covers(start as i64, end as i64), count == end - start);
            }
            let run = model[start..].iter().take_while(|m| **m).count();
            assert_eq!(spans.end_of_run(start as i64), (start + run) as i64);
        }
    }
}
