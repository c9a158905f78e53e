//! Hostile bytes: every truncation and every flipped bit of a packet of every kind is read as a
//! malformed packet or as a valid one, and never panics. Valid bytes: every packet of the corpus is
//! read as what it was written as, and a flipped bit that a checksum covers is seen.

#[path = "corpus/build.rs"]
mod build;
#[path = "corpus/read.rs"]
mod read;

use build::{Packet, corpus};
use clearway_wire::Malformed;
use clearway_wire::pretty::{Frame, LinkFrame};
use read::read;

#[test]
fn every_packet_is_read_as_its_kind() {
    for Packet { name, frame, seen } in corpus() {
        assert_eq!(read(&frame, true), Ok(seen), "{name}");
        assert_eq!(read(&frame, false), Ok(seen), "{name}, trusting checksums");
    }
}

#[test]
fn every_packet_has_a_line_without_complaint() {
    for Packet { name, frame, .. } in corpus() {
        let line = Frame(&frame).to_string();
        assert!(
            !line.is_empty() && !line.contains('\n') && !line.contains("[ipv"),
            "{name}: {line}"
        );
    }
}

#[test]
fn every_truncation_is_refused_or_read() {
    for Packet { name, frame, seen } in corpus() {
        for len in 0..frame.len() {
            let cut = &frame[..len];
            let got = read(cut, true);
            let _ = read(cut, false);
            let line = LinkFrame(cut).to_string();
            assert!(!line.is_empty());
            // A frame that is cut cannot pass for whole, but where the cut bytes were link padding.
            let padding_only = seen.len <= len;
            assert_eq!(got.is_ok(), padding_only, "{name} cut to {len}: {got:?}, {line}");
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_or_read() {
    for Packet { name, frame, .. } in corpus() {
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (verified, trusted) = (read(&flipped, true), read(&flipped, false));
            // Trusting checksums only takes away reasons to refuse.
            assert!(
                verified.is_err() || trusted.is_ok(),
                "{name} bit {bit}: {verified:?} {trusted:?}"
            );
            assert!(!LinkFrame(&flipped).to_string().is_empty(), "{name} bit {bit}");
        }
    }
}

#[test]
fn a_flipped_bit_under_a_checksum_is_seen() {
    for Packet { name, frame, seen } in corpus() {
        // From the IPv4 header on, or from the upper header on with IPv6, every byte is covered by
        // one checksum or the other.
        for bit in seen.covered_from * 8..seen.covered_to * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped, true).is_err(), "{name} bit {bit}: {}", Frame(&flipped));
        }
    }
}

#[test]
fn pairs_of_random_byte_changes_never_panic() {
    let mut state = 1u64;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut reasons = [0u32; Malformed::COUNT];
    for Packet { frame, .. } in corpus() {
        for _ in 0..2000 {
            let mut changed = frame.clone();
            for _ in 0..2 {
                let at = next() % changed.len();
                changed[at] = next() as u8;
            }
            if let Err(reason) = read(&changed, false) {
                reasons[reason.index()] += 1;
            }
            assert!(!Frame(&changed).to_string().is_empty());
        }
    }
    // Random changes must reach well into every protocol for this test to mean anything.
    let met = reasons.iter().filter(|n| **n > 0).count();
    assert!(met >= 25, "only {met} reasons met");
}

#[test]
fn the_corpus_holds_every_kind() {
    let kinds: std::collections::HashSet<_> = corpus().into_iter().map(|p| p.seen.kind).collect();
    for kind in [
        "arp",
        "tcp",
        "udp",
        "icmpv4",
        "icmpv4-error",
        "icmpv6",
        "icmpv6-error",
        "ndp",
        "fragment",
        "no-next-header",
        "other",
    ] {
        assert!(kinds.contains(kind), "{kind}");
    }
}
