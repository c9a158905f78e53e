use clearway_base::Instant;

use super::{Capture, LinkType};

fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
    let mut rest = file;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let kind = u32::from_le_bytes(rest[..4].try_into().unwrap());
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(rest[4..8], rest[len - 4..len], "the length stands at both ends");
        found.push((kind, &rest[8..len - 4]));
        rest = &rest[len..];
    }
    found
}

#[test]
fn a_capture_is_a_list_of_blocks_with_nanoseconds() {
    let interfaces = [("a.0".to_owned(), LinkType::Ethernet), ("b.0".to_owned(), LinkType::Raw)];
    let mut capture = Capture::begin(Vec::new(), &interfaces).unwrap();
    let at = Instant::from_nanos(5_000_000_007);
    capture.packet(1, at, b"hello", "lost").unwrap();
    let file = capture.end().unwrap();
    let blocks = blocks(&file);
    assert_eq!(blocks.iter().map(|b| b.0).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 1, 6]);
    assert_eq!(blocks[2].1[0], 101);
    let packet = blocks[3].1;
    let high = u64::from(u32::from_le_bytes(packet[4..8].try_into().unwrap()));
    let low = u64::from(u32::from_le_bytes(packet[8..12].try_into().unwrap()));
    assert_eq!(high << 32 | low, at.as_nanos());
    assert_eq!(&packet[20..25], b"hello");
    assert!(packet.windows(4).any(|w| w == b"lost"));
}
