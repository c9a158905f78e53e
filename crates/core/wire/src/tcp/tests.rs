use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;

const SEGMENT: Segment = Segment {
    src_port: 80,
    dst_port: 4242,
    seq: Seq(0x0102_0304),
    ack: Seq(0xfffe_fdfc),
    flags: Flags::PSH.union(Flags::ACK),
    header_len: 20,
    wnd: 65535,
    urg: 7,
    opts: TcpOptions::NONE,
};

fn bytes_of(segment: &Segment) -> Vec<u8> {
    let mut out = vec![0xff; MAX_HEADER_LEN];
    let len = emit(segment, &mut out);
    out.truncate(len);
    out
}

/// A header with this option list, zeros behind it.
fn with_list(list: &[u8]) -> Vec<u8> {
    let mut bytes = bytes_of(&SEGMENT);
    bytes.extend(list);
    bytes.resize(20 + list.len().div_ceil(4) * 4, 0);
    bytes[12] = (bytes.len() * 4) as u8;
    bytes
}

fn options(list: &[u8]) -> TcpOptions {
    parse(&with_list(list)).unwrap().opts
}

#[test]
fn a_segment_is_small() {
    // It is made for each segment that leaves the fast path: less than two cache lines.
    assert!(core::mem::size_of::<Segment>() <= 112, "{}", core::mem::size_of::<Segment>());
}

#[test]
fn a_header_comes_back_as_it_was_written() {
    let bytes = bytes_of(&SEGMENT);
    assert_eq!(parse(&bytes), Ok(SEGMENT));
    assert_eq!(bytes[12..], [0x50, 0x18, 0xff, 0xff, 0, 0, 0, 7]);
}

#[test]
fn a_plain_header_is_read_as_the_whole_reading_says() {
    let stamped = Segment {
        opts: TcpOptions { ts: Some((1, 0xff00_0002)), ..TcpOptions::NONE },
        header_len: 32,
        ..SEGMENT
    };
    let mut bytes = bytes_of(&stamped);
    bytes.extend([7; 9]);
    assert_eq!(plain_with_stamps(&bytes), Some(stamped.plain()));
    assert_eq!(plain_without_options(&bytes), None);
    assert_eq!(plain_with_stamps(&bytes[..31]), None, "cut short");
    // Another layout of the same options, and other options of the same length.
    assert_eq!(plain_with_stamps(&with_list(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1])), None);
    assert_eq!(plain_with_stamps(&with_list(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2])), None);
    assert_eq!(
        plain_with_stamps(&with_list(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 1, 1])),
        None
    );

    let bare = bytes_of(&SEGMENT);
    assert_eq!(plain_without_options(&bare), Some(SEGMENT.plain()));
    assert_eq!(plain_with_stamps(&bare), None);
    assert_eq!(plain_without_options(&bare[..19]), None, "cut short");
    assert_eq!(plain_without_options(&with_list(&[1, 1, 1, 1])), None);
    let short = [&bare[..12], &[0x40], &bare[13..]].concat();
    assert_eq!(plain_without_options(&short), None, "a header of 16 bytes");
}

#[test]
fn timestamps_alone_take_the_recommended_layout() {
    let opts = TcpOptions { ts: Some((1, 0xff00_0002)), ..TcpOptions::NONE };
    let segment = Segment { opts, header_len: 32, ..SEGMENT };
    let bytes = bytes_of(&segment);
    assert_eq!(bytes[20..], [1, 1, 8, 10, 0, 0, 0, 1, 0xff, 0, 0, 2]);
    assert_eq!(parse(&bytes), Ok(segment));
}

#[test]
fn the_fast_path_and_the_full_one_read_the_same_timestamps() {
    let ts = [8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
    let quick = options(&[&[1, 1], &ts[..]].concat());
    for list in
        [[&ts[..], &[1, 1]].concat(), [&ts[..], &[0, 0]].concat(), [&[1], &ts[..], &[0]].concat()]
    {
        assert_eq!(options(&list), quick);
    }
    assert_eq!(quick, TcpOptions { ts: Some((5, 6)), ..TcpOptions::NONE });
}

#[test]
fn a_syn_carries_all_its_options() {
    let opts = TcpOptions {
        mss: Some(1460),
        wscale: Some(7),
        sack_permitted: true,
        ts: Some((1, 0)),
        ..TcpOptions::NONE
    };
    let bytes = bytes_of(&Segment { opts, ..SEGMENT });
    let list = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
    assert_eq!(bytes[20..], list);
    assert_eq!(parse(&bytes).unwrap().opts, opts);
    // The fast paths say what the long ones say.
    assert_eq!(TcpOptions::parse_any(&list), opts);
    let mut long = [0; 20];
    assert_eq!(opts.emit_any(&mut long), list.len());
    assert_eq!(long, list);
}

#[test]
fn every_combination_of_options_comes_back_and_is_padded_to_words() {
    for bits in 0..80u32 {
        let mut opts = TcpOptions {
            mss: (bits & 1 != 0).then_some(536),
            wscale: (bits & 2 != 0).then_some(14),
            sack_permitted: bits & 4 != 0,
            ts: (bits & 8 != 0).then_some((0x0a0b_0c0d, 1)),
            ..TcpOptions::NONE
        };
        let blocks = bits / 16 % 5;
        for i in 0..blocks {
            assert!(opts.sack.push(Seq(i * 100), Seq(i * 100 + 50)));
        }
        let segment = Segment { opts, ..SEGMENT };
        let bytes = bytes_of(&segment);
        let got = parse(&bytes).unwrap();
        assert_eq!(bytes.len(), opts.header_len());
        assert_eq!(usize::from(got.header_len), bytes.len());
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(got.opts.sack.as_slice(), &opts.sack.as_slice()[..got.opts.sack.len()]);
        assert_eq!(
            TcpOptions { sack: SackBlocks::NONE, ..got.opts },
            TcpOptions { sack: SackBlocks::NONE, ..opts }
        );
        let others = TcpOptions { sack: SackBlocks::NONE, ..opts }.header_len() - HEADER_LEN;
        let room = (MAX_OPTIONS_LEN - others - 4) / 8;
        assert_eq!(got.opts.sack.len(), opts.sack.len().min(room), "as many blocks as fit");
    }
}

#[test]
fn three_sack_blocks_fit_beside_timestamps() {
    let mut opts = TcpOptions { ts: Some((1, 2)), ..TcpOptions::NONE };
    for i in 0..4 {
        opts.sack.push(Seq(i), Seq(i + 1));
    }
    assert!(!opts.sack.push(Seq(9), Seq(10)), "a fifth block finds no room");
    assert_eq!(parse(&bytes_of(&Segment { opts, ..SEGMENT })).unwrap().opts.sack.len(), 3);
    opts.ts = None;
    assert_eq!(parse(&bytes_of(&Segment { opts, ..SEGMENT })).unwrap().opts.sack.len(), 4);
}

#[test]
fn data_offsets_out_of_range_are_refused() {
    let good = bytes_of(&SEGMENT);
    for words in [0, 1, 4, 6, 15] {
        let mut bytes = good.clone();
        bytes[12] = words << 4;
        assert_eq!(parse(&bytes), Err(Malformed::TcpBadOffset), "{words}");
    }
    for len in 0..20 {
        assert_eq!(parse(&good[..len]), Err(Malformed::TcpTooShort));
    }
}

#[test]
fn reserved_bits_are_ignored() {
    let mut bytes = bytes_of(&SEGMENT);
    bytes[12] |= 0x0e;
    assert_eq!(parse(&bytes), Ok(SEGMENT));
}

/// RFC 9768 3.1: the last of them is a control bit now.
#[test]
fn the_bit_beside_the_data_offset_is_ae() {
    let segment = Segment { flags: SEGMENT.flags | Flags::AE, ..SEGMENT };
    let bytes = bytes_of(&segment);
    assert_eq!((bytes[12] & 0x0f, parse(&bytes)), (1, Ok(segment)));
    assert_eq!(
        (segment.flags.ace() & 4, Flags::of_ace(0b111), Flags::of_ace(0b010)),
        (4, Flags::ACE, Flags::CWR)
    );
    assert_eq!(
        (plain_with_stamps(&bytes), plain_without_options(&bytes)),
        (None, None),
        "for who reads it all"
    );
}

/// RFC 9768 3.2.3: two orders, and none to three counters of 24 bits.
#[test]
fn a_fast_open_cookie_is_written_and_read_and_one_of_a_wrong_length_is_none() {
    for cookie in [&[][..], &[1; 4], &[2; 8], &[3; 16]] {
        let sent = FastOpenCookie::new(cookie).unwrap();
        let opts = TcpOptions { mss: Some(1000), fast_open: Some(sent), ..TcpOptions::NONE };
        let bytes = bytes_of(&Segment { opts, ..SEGMENT });
        assert_eq!(bytes.len(), HEADER_LEN + 4 + (2 + cookie.len()).next_multiple_of(4));
        let read = parse(&bytes).unwrap().opts;
        assert_eq!((read.fast_open, read.mss), (Some(sent), Some(1000)));
        assert_eq!((sent.as_slice(), sent.is_request()), (cookie, cookie.is_empty()));
    }
    for len in [1, 2, 3, 5, 15, 17, 18] {
        assert_eq!(FastOpenCookie::new(&[0; 18][..len]), None, "{len}");
    }
    assert_eq!(options(&[34, 5, 1, 2, 3]).fast_open, None);
}

#[test]
fn counters_of_ecn_are_written_and_read_in_both_orders() {
    for (ect1_first, kind, order) in [(false, 172, [11, 12, 13]), (true, 174, [13, 12, 11])] {
        for count in 0..=3 {
            let sent = AccEcn::new(ect1_first, [0x0100_000b, 12, 13], count);
            let list: Vec<u8> = sent.bytes().collect();
            assert_eq!(
                (list[0], usize::from(list[1]), list.len()),
                (kind, 2 + 3 * count, 2 + 3 * count)
            );
            assert!(list[2..].chunks(3).zip(order).all(|(bytes, n)| bytes == [0, 0, n]));
            let segment =
                Segment { opts: TcpOptions { acc_ecn: Some(sent), ..TcpOptions::NONE }, ..SEGMENT };
            let bytes = bytes_of(&segment);
            assert_eq!(bytes.len(), HEADER_LEN + AccEcn::padded_len(count));
            assert_eq!(parse(&bytes).unwrap().opts.acc_ecn, Some(sent));
            assert_eq!(sent.counters().iter().flatten().count(), count);
        }
    }
    // Of an option that is longer than any of today the first three counters count; one with a part
    // of a counter is none.
    assert_eq!(
        options(&[172, 14, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4]).acc_ecn,
        Some(AccEcn::new(false, [1, 2, 3], 3))
    );
    assert_eq!(options(&[172, 6, 0, 0, 1, 0]).acc_ecn, None);
}

#[test]
fn an_illegal_option_length_ends_the_list_and_keeps_what_stood_before() {
    let mss = [2, 4, 5, 0xb4];
    for broken in
        [&[3, 0, 7, 0][..], &[3, 1, 7, 0], &[8, 40, 0, 0], &[200, 255, 0, 0], &[1, 1, 1, 3]]
    {
        let opts = options(&[&mss, broken].concat());
        assert_eq!(
            opts,
            TcpOptions { mss: Some(1460), broken: true, ..TcpOptions::NONE },
            "{broken:?}"
        );
    }
}

#[test]
fn known_options_of_a_wrong_length_are_skipped() {
    let mss = [2, 4, 5, 0xb4];
    for odd in [
        &[2, 3, 9][..],
        &[3, 4, 9, 9],
        &[4, 3, 9],
        &[8, 9, 1, 1, 1, 1, 1, 1, 1],
        &[5, 2],
        &[5, 9, 1, 1, 1, 1, 1, 1, 1],
        &[5, 11, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        &[34, 5, 1, 2, 3],
        &[35, 6, 1, 2, 3, 4],
    ] {
        let opts = options(&[odd, &mss].concat());
        assert_eq!(opts, TcpOptions { mss: Some(1460), ..TcpOptions::NONE }, "{odd:?}");
    }
}

#[test]
fn of_repeated_options_the_first_counts() {
    let list = [2, 4, 0, 1, 2, 4, 0, 2, 3, 3, 5, 3, 3, 6];
    let opts = options(&list);
    assert_eq!((opts.mss, opts.wscale), (Some(1), Some(5)));
    let sack = |n: u8| [5, 10, 0, 0, 0, n, 0, 0, 0, n + 1];
    let opts = options(&[sack(1), sack(3)].concat());
    assert_eq!(opts.sack.as_slice(), [(Seq(1), Seq(2))]);
    let ts = |n: u8| [8, 10, 0, 0, 0, n, 0, 0, 0, n];
    assert_eq!(options(&[ts(1), ts(2)].concat()).ts, Some((1, 1)));
}

#[test]
fn nothing_counts_behind_the_end_of_the_list() {
    assert_eq!(options(&[1, 0, 2, 4, 5, 0xb4, 3, 0]), TcpOptions::NONE);
}

#[test]
fn option_values_come_raw() {
    assert_eq!(options(&[3, 3, 255, 2, 4, 0, 0]).wscale, Some(255));
    assert_eq!(options(&[2, 4, 0, 0]).mss, Some(0));
}

#[test]
fn a_list_of_any_bytes_ends() {
    for seed in 0..20_000u32 {
        let mut state = seed.wrapping_mul(2_654_435_761);
        let list: Vec<u8> = (0..40)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Small numbers, so that kinds and lengths that mean something are met often.
                (state >> 24) as u8 % 12
            })
            .collect();
        let bytes = with_list(&list);
        let items = raw_options(&bytes).count();
        assert!(items <= 40);
        let opts = parse(&bytes).unwrap().opts;
        assert_eq!(opts.broken, raw_options(&bytes).any(|o| o == RawOption::Broken));
    }
}

#[test]
fn all_ways_to_the_checksum_agree() {
    let ends: [(Addr, Addr); 2] = [
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()),
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()),
    ];
    for (src, dst) in ends {
        let mut bytes = bytes_of(&Segment {
            opts: TcpOptions { ts: Some((1, 2)), ..TcpOptions::NONE },
            ..SEGMENT
        });
        bytes.extend(b"odd");
        let unfilled = bytes.clone();
        fill_checksum(&src, &dst, &mut bytes);
        assert_eq!(verify_checksum(&src, &dst, &bytes), Ok(()));
        let mut with = unfilled[..32].to_vec();
        fill_checksum_with(&src, &dst, &mut with, checksum::sum(b"odd"), 3);
        assert_eq!(with, bytes[..32]);
        let mut partial = unfilled.clone();
        fill_partial_checksum(&src, &dst, 35, &mut partial);
        assert_eq!(checksum::sum(&partial).finish().to_be_bytes(), bytes[16..18]);
        bytes[33] ^= 0x80;
        assert_eq!(verify_checksum(&src, &dst, &bytes), Err(Malformed::TcpBadChecksum));
    }
}

#[test]
fn flags_read_as_tcpdump_writes_them() {
    for (flags, text) in [
        (Flags::NONE, "none"),
        (Flags::SYN, "S"),
        (Flags::SYN | Flags::ACK, "S."),
        (Flags::FIN | Flags::PSH | Flags::ACK, "FP."),
        (Flags(0xff), "FSRP.UEW"),
        (Flags(0x1ff), "FSRP.UEWe"),
    ] {
        assert_eq!(flags.to_string(), text);
    }
    let mut flags = Flags::SYN;
    flags |= Flags::ACK;
    assert!(flags.contains(Flags::SYN | Flags::ACK) && !flags.contains(Flags::SYN | Flags::FIN));
    assert!(flags.intersects(Flags::SYN | Flags::FIN) && !flags.intersects(Flags::RST));
    assert_eq!(flags.without(Flags::SYN), Flags::ACK);
    assert_eq!(flags.intersection(Flags::SYN | Flags::FIN), Flags::SYN);
}

#[test]
fn syn_and_fin_take_sequence_space() {
    let with = |flags| Segment { flags, ..SEGMENT }.seq_len(10);
    assert_eq!((with(Flags::ACK), with(Flags::FIN), with(Flags::SYN | Flags::FIN)), (10, 11, 12));
}
