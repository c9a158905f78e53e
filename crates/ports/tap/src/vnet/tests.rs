use super::*;

fn header(flags: u8, gso_type: u8, gso_size: u16, start: u16, offset: u16) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[0] = flags;
    header[1] = gso_type;
    header[4..6].copy_from_slice(&gso_size.to_ne_bytes());
    header[6..8].copy_from_slice(&start.to_ne_bytes());
    header[8..10].copy_from_slice(&offset.to_ne_bytes());
    header
}

fn ipv4_frame(len: usize, tcp_flags: u8) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[14] = 0x45;
    frame[34 + 13] = tcp_flags;
    frame
}

/// The header for a frame that is there as a whole.
fn build_whole(meta: &TxMeta, frame: &[u8], ethernet: bool) -> Result<[u8; HEADER_LEN], BadHeader> {
    build(meta, frame, frame.len(), ethernet)
}

const CUT: TxMeta = TxMeta {
    checksum_start: 34,
    checksum_offset: 16,
    segmentation: Segmentation::Tcp(1448),
    header_len: 54,
    flow_hash: 0,
};

#[test]
fn a_plain_frame_says_nothing_of_its_checksum() {
    assert_eq!(parse(&[0; 10], 60), Ok(RxMeta::default()));
}

#[test]
fn a_checksum_left_to_us_and_one_that_was_verified_are_both_good() {
    for flags in [F_NEEDS_CSUM, F_DATA_VALID] {
        assert_eq!(parse(&header(flags, 0, 0, 34, 16), 60).unwrap().checksum, Checksum::Good);
    }
}

#[test]
fn a_joined_frame_tells_its_segment_size() {
    for kind in [GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, GSO_TCPV4 | GSO_ECN] {
        assert_eq!(
            parse(&header(F_NEEDS_CSUM, kind, 1448, 34, 16), 40_000).unwrap().segment_size,
            1448
        );
    }
}

#[test]
fn headers_that_do_not_go_with_their_frame_are_bad() {
    assert_eq!(
        parse(&header(F_NEEDS_CSUM, 0, 0, 60, 16), 60),
        Err(BadHeader),
        "the checksum would lie outside"
    );
    assert_eq!(parse(&header(F_NEEDS_CSUM, 0, 0, 0xffff, 0xffff), 60), Err(BadHeader));
    assert_eq!(
        parse(&header(F_NEEDS_CSUM, GSO_TCPV4, 0, 34, 16), 4000),
        Err(BadHeader),
        "segments of no length"
    );
    assert_eq!(
        parse(&header(F_NEEDS_CSUM, GSO_TCPV4, 4000, 34, 16), 4000),
        Err(BadHeader),
        "a segment of the whole frame"
    );
    assert_eq!(
        parse(&header(F_NEEDS_CSUM, 3, 1000, 34, 16), 4000),
        Err(BadHeader),
        "UDP fragmentation was never asked for"
    );
    assert_eq!(parse(&header(0, 0x7f, 1000, 34, 16), 4000), Err(BadHeader));
}

#[test]
fn a_large_frame_is_to_be_cut_and_a_short_one_is_not() {
    let built = build_whole(&CUT, &ipv4_frame(9000, 0), true).unwrap();
    assert_eq!((built[0], built[1]), (F_NEEDS_CSUM, GSO_TCPV4));
    assert_eq!(
        (word(&built, 2), word(&built, 4), word(&built, 6), word(&built, 8)),
        (54, 1448, 34, 16)
    );
    let built = build_whole(&CUT, &ipv4_frame(54 + 1448, 0), true).unwrap();
    assert_eq!((built[0], built[1], word(&built, 4)), (F_NEEDS_CSUM, GSO_NONE, 0));
}

#[test]
fn the_headers_are_enough_of_a_frame_that_comes_in_pieces() {
    let frame = ipv4_frame(9000, 0);
    assert_eq!(build(&CUT, &frame[..54], 9000, true), build_whole(&CUT, &frame, true));
    assert_eq!(build(&CUT, &frame[..53], 9000, true), Err(BadHeader));
}

#[test]
fn the_congestion_flag_goes_with_the_first_segment_only() {
    assert_eq!(
        build_whole(&CUT, &ipv4_frame(9000, TCP_CWR), true).unwrap()[1],
        GSO_TCPV4 | GSO_ECN
    );
}

#[test]
fn the_family_is_taken_from_the_packet() {
    let mut frame = ipv4_frame(9000, 0);
    frame[14] = 0x60;
    assert_eq!(build_whole(&CUT, &frame, true).unwrap()[1], GSO_TCPV6);
    assert_eq!(
        build_whole(&CUT, &frame, false),
        Err(BadHeader),
        "without Ethernet the first byte is the packet's"
    );
    frame[14] = 0x50;
    assert_eq!(build_whole(&CUT, &frame, true), Err(BadHeader));
    let udp =
        TxMeta { segmentation: Segmentation::Udp(1400), checksum_offset: 6, header_len: 42, ..CUT };
    assert_eq!(build_whole(&udp, &frame, true).unwrap()[1], GSO_UDP_L4);
}

#[test]
fn a_request_that_cannot_be_met_is_refused() {
    let frame = ipv4_frame(60, 0);
    assert_eq!(build_whole(&TxMeta { checksum_offset: 30, ..CUT }, &frame, true), Err(BadHeader));
    assert_eq!(build_whole(&TxMeta { checksum_start: 0, ..CUT }, &frame, true), Err(BadHeader));
    assert_eq!(build_whole(&TxMeta { header_len: 61, ..CUT }, &frame, true), Err(BadHeader));
    assert_eq!(build_whole(&TxMeta { header_len: 0, ..CUT }, &frame, true), Err(BadHeader));
    assert_eq!(
        build_whole(&TxMeta { segmentation: Segmentation::Tcp(0), ..CUT }, &frame, true),
        Err(BadHeader)
    );
    assert_eq!(
        build_whole(
            &TxMeta { checksum_start: u16::MAX, checksum_offset: u16::MAX, ..CUT },
            &frame,
            true
        ),
        Err(BadHeader)
    );
}
