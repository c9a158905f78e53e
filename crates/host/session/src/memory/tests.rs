use super::*;

#[test]
fn blocks_are_aligned_apart_and_all_given_back() {
    let memory = Memory::new("test".into(), Account::host(64 << 20), Arc::default());
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
    assert_eq!(memory.used(), blocks.iter().map(Block::charged).sum::<u64>());
    assert!(memory.used() <= spans.iter().map(|s| u64::from(s.2)).sum::<u64>());
    blocks.clear();
    assert_eq!(memory.used(), 0);
    // Everything has joined again: the largest block of each segment is free.
    let inside = memory.inside();
    let free: usize = inside.free.iter().map(BTreeSet::len).sum();
    assert_eq!(free, inside.pieces.len());
}

#[test]
fn the_limit_counts_what_is_touched() {
    let memory = Memory::new("test".into(), Account::host(16 << 20), Arc::default());
    let untouched = memory.reserve(256 << 20).unwrap();
    let all = memory.take(16 << 20).unwrap();
    assert!(memory.take(1).is_none() && memory.reserve(1).is_none());
    drop(all);
    assert_eq!(memory.used(), 0);
    assert!(memory.take(1).is_some());
    drop(untouched);
}

#[test]
fn only_parts_that_were_touched_are_charged_and_resident() {
    let memory = Memory::new("test".into(), Account::host(1 << 30), Arc::default());
    let block = memory.reserve(1 << 20).unwrap();
    let part = (1 << 20) >> PARTS_ORDER;
    // Of the first part a page, as long as that is enough.
    block.touch(100, 10);
    block.touch(0, 4096);
    assert_eq!((block.charged(), memory.used()), (4096, 4096));
    // Over the end of the circle: the last part, and the first page, which is charged already.
    block.touch((1 << 20) - 5, 10);
    assert_eq!(block.charged(), 4096 + u64::from(part));
    block.touch(4090, 10);
    assert_eq!(block.charged(), 2 * u64::from(part));
    assert_eq!(block.keep_only(10, 20), 2 * u64::from(part) - 4096);
    assert_eq!(block.charged(), 4096);
    block.touch(7, 1 << 20);
    assert_eq!(block.charged(), 1 << 20);
    let bytes = clearway_shm::FifoMem::new(
        block.segment(),
        block.segment(),
        &clearway_shm::attach_socket::FifoPlace {
            head: memory.take(128).unwrap().place(),
            data: block.place(),
            capacity: 1 << 20,
            limit: 1 << 20,
        },
    );
    let mut end = clearway_shm::Producer::new(bytes.unwrap());
    end.write(&vec![1; 1 << 20]).unwrap();
    assert!(memory.resident() >= 1 << 20);
    assert_eq!(block.keep_only(3 * part, 2 * part), (1 << 20) - 2 * u64::from(part));
    assert!(memory.resident() <= 2 * u64::from(part) + 8192, "{} bytes stay", memory.resident());
    assert_eq!(block.charged(), 2 * u64::from(part));
    drop(block);
    assert_eq!(memory.used(), 0);
}

#[test]
fn many_blocks_need_few_segments() {
    let memory = Memory::new("test".into(), Account::host(1 << 30), Arc::default());
    let blocks: Vec<_> = (0..20_000).map(|_| memory.reserve(1 << 20).unwrap()).collect();
    assert_eq!(memory.used(), 0);
    assert!(memory.segments().len() < 40, "{} segments", memory.segments().len());
    drop(blocks);
}

#[test]
fn a_warm_block_is_charged_as_it_was_left() {
    let account = Account::host(1 << 30);
    let memory = Memory::new("test".into(), account.clone(), Arc::default());
    for (touched, charged) in [(64, 4096), (4097, 16384)] {
        let block = memory.reserve(1 << 20).unwrap();
        block.touch(0, touched);
        drop(block);
        assert_eq!(memory.used(), charged);
        let again = memory.reserve(1 << 20).unwrap();
        assert_eq!((again.charged(), memory.used()), (charged, charged));
        again.touch(0, 5000);
        assert_eq!((again.charged(), memory.used()), (16384, 16384));
        again.touch(0, 1 << 20);
        drop(again);
        assert_eq!(memory.used(), 0);
    }
    drop(memory.reserve(1 << 20).inspect(|block| block.touch(0, 1)));
    assert_eq!(account.used(), 4096);
    drop(memory);
    assert_eq!(account.used(), 0, "what is warm goes with the memory");
}
