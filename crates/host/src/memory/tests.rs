use super::*;

#[test]
fn blocks_are_aligned_apart_and_all_given_back() {
    let memory = Memory::new("test".into(), 64 << 20);
    let mut blocks: Vec<Block> = Vec::new();
    for round in 0..400u32 {
        let len = 1 << (round % 17);
        blocks.push(memory.take(len + round % 3).unwrap());
        if round % 3 == 0 {
            blocks.swap_remove((round as usize * 7) % blocks.len());
        }
    }
    let mut spans: Vec<(u32, u32, u32)> =
        blocks.iter().map(|b| (b.place.segment, b.place.offset, 1u32 << b.order)).collect();
    spans.sort_unstable();
    for (segment, offset, len) in &spans {
        assert_eq!(offset % len, 0, "block at {offset} of segment {segment}");
    }
    for pair in spans.windows(2) {
        assert!(pair[0].0 < pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1, "{pair:?} overlap");
    }
    assert_eq!(memory.used(), spans.iter().map(|s| u64::from(s.2)).sum::<u64>());
    blocks.clear();
    assert_eq!(memory.used(), 0);
    // Everything has joined again: the largest block of each segment is free.
    let inside = memory.inside();
    let free: usize = inside.free.iter().map(BTreeSet::len).sum();
    assert_eq!(free, inside.pieces.len());
}

#[test]
fn the_limit_counts_segments() {
    let memory = Memory::new("test".into(), 16 << 20);
    let all = memory.take(16 << 20).unwrap();
    assert!(memory.take(1).is_none());
    drop(all);
    assert!(memory.take(1).is_some());
    assert!(memory.take((16 << 20) + 1).is_none());
}
