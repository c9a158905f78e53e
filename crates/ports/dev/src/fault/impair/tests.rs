use super::*;

fn impair(text: &str, seed: u64) -> Impair<u64> {
    Impair::new(text.parse::<super::super::FaultSpec>().unwrap().rx, Rng::seed(seed))
}

/// Sends `count` frames of 1,250 bytes, one each millisecond, and says what arrived when.
fn run(text: &str, seed: u64, count: u64) -> (Vec<(u64, u64)>, FaultCounts) {
    let mut link = impair(text, seed);
    let mut arrived = Vec::new();
    for ms in 0..count + 1000 {
        let now = Instant::from_millis(ms);
        if ms < count {
            if let Fate::Goes { twice, .. } = link.fate(1250) {
                for _ in 0..1 + u8::from(twice) {
                    let _ = link.push(now, 1250, ms);
                }
            }
        }
        while let Some(item) = link.pop(now) {
            arrived.push((ms, item));
        }
    }
    assert_eq!(link.next_deadline(), Instant::NEVER, "everything has arrived in the end");
    (arrived, link.counts())
}

#[test]
fn the_same_seed_gives_the_same_faults_and_another_gives_others() {
    let text = "loss=5%,reorder=5%,dup=5%,corrupt=5%,delay=3ms";
    assert_eq!(run(text, 7, 2000), run(text, 7, 2000));
    assert_ne!(run(text, 7, 2000).0, run(text, 8, 2000).0);
}

#[test]
fn shares_are_met_and_add_up() {
    let (arrived, counts) = run("loss=10%,dup=20%,corrupt=5%", 1, 10_000);
    // Four standard deviations of a binomial distribution of 10,000 (or 9,000) draws.
    assert!(counts.lost.abs_diff(1_000) < 120, "{counts:?}");
    assert!(counts.duplicated.abs_diff(1_800) < 152, "{counts:?}");
    assert!(counts.corrupted.abs_diff(450) < 83, "{counts:?}");
    assert_eq!(arrived.len() as u64, 10_000 - counts.lost + counts.duplicated);
}

#[test]
fn reordered_frames_are_overtaken_by_a_few_and_none_is_lost() {
    let (arrived, counts) = run("reorder=10%", 1, 5_000);
    assert!(counts.reordered.abs_diff(500) < 85, "{counts:?}");
    let mut items: Vec<_> = arrived.iter().map(|(_, item)| *item).collect();
    let late = items.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    assert!(late > counts.reordered / 2 && late <= counts.reordered);
    assert!(arrived.iter().all(|(ms, item)| ms - item <= HELD_AT_MOST.as_millis()));
    items.sort_unstable();
    assert_eq!(items, (0..5_000).collect::<Vec<_>>());
}

#[test]
fn a_last_frame_that_was_held_back_arrives_all_the_same() {
    let mut link = impair("reorder=100%", 1);
    link.push(Instant::ZERO, 100, 1).unwrap();
    assert_eq!(link.pop(Instant::ZERO), None);
    assert_eq!(link.next_deadline(), Instant::ZERO + HELD_AT_MOST);
    assert_eq!(link.pop(Instant::ZERO + HELD_AT_MOST), Some(1));
}

#[test]
fn a_rate_spaces_frames_out_and_the_delay_comes_on_top() {
    // 1,250 bytes are 10,000 bits: one each 10 ms at 1 Mbit/s.
    let mut link = impair("rate=1M,delay=5ms", 1);
    for n in 0..3 {
        link.push(Instant::from_millis(100), 1250, n).unwrap();
    }
    for (n, due) in [(0, 115), (1, 125), (2, 135)] {
        assert_eq!(link.next_deadline(), Instant::from_millis(due));
        assert_eq!(link.pop(Instant::from_millis(due - 1)), None);
        assert_eq!(link.pop(Instant::from_millis(due)), Some(n));
    }
}

#[test]
fn a_full_queue_loses_what_comes_last() {
    let mut link = impair("rate=1M,limit=2", 1);
    assert_eq!(link.push(Instant::ZERO, 1250, 1), Ok(()));
    assert_eq!(link.push(Instant::ZERO, 1250, 2), Ok(()));
    assert_eq!(link.push(Instant::ZERO, 1250, 3), Err(3));
    assert_eq!(link.counts().overflowed, 1);
    let mut free = impair("loss=0%,limit=1", 1);
    for n in 0..100 {
        assert_eq!(
            free.push(Instant::ZERO, 1250, n),
            Ok(()),
            "nothing waits without rate and delay"
        );
    }
}

#[test]
fn jitter_keeps_the_order_unless_frames_may_overtake_each_other() {
    for shape in ["uniform", "normal"] {
        let text = format!("delay=5ms,jitter=20ms,jitter-shape={shape}");
        let (kept, _) = run(&text, 3, 2_000);
        assert!(kept.windows(2).all(|pair| pair[0].1 < pair[1].1), "{shape}");
        let (free, _) = run(&format!("{text},jitter-order=free"), 3, 2_000);
        let late = free.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
        assert!(late > 500, "{shape}: {late}");
        for arrived in [&kept, &free] {
            let delays: Vec<_> = arrived.iter().map(|(ms, item)| ms - item).collect();
            assert!(delays.iter().all(|ms| (5..=25).contains(ms)), "{shape}");
        }
        let mut items: Vec<_> = free.iter().map(|(_, item)| *item).collect();
        items.sort_unstable();
        assert_eq!(items, (0..2_000).collect::<Vec<_>>());
    }
}

#[test]
fn normal_jitter_lies_closer_about_its_middle_than_uniform() {
    let near = |shape: &str| {
        let (arrived, _) =
            run(&format!("jitter=40ms,jitter-order=free,jitter-shape={shape}"), 1, 4_000);
        arrived.iter().filter(|(ms, item)| (10..=30).contains(&(ms - item))).count()
    };
    // The middle half holds half of an even draw, and 1 - 2 * P(mean of four < 1/4) = 92 % of the
    // mean of four (Irwin-Hall).
    let (uniform, normal) = (near("uniform"), near("normal"));
    assert!(uniform.abs_diff(2_050) < 200 && normal > 3_500, "{uniform} {normal}");
}
