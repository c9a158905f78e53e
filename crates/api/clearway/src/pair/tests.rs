use clearway_engine::Next;
use clearway_wire::{Addr, Endpoint};

use super::*;
use crate::{answer_datagrams, connect, serve};

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends so many bytes over a bad cable and compares them; the packets that each stack has seen.
fn transfer(fault: &str, seed: u64) -> (u64, u64) {
    let all = bytes(300_000);
    let expected = all.clone();
    let server = serve(7, move |came: &mut Vec<u8>, io| {
        while !io.recv().is_empty() {
            came.extend_from_slice(io.recv());
            io.consumed(io.recv().len());
        }
        if !io.peer_closed() {
            return Next::Wait;
        }
        assert!(*came == expected, "{} bytes came", came.len());
        Next::Close
    });
    let remote = Endpoint::new(Addr::v4([10, 0, 0, 1]), 7);
    let client = connect(remote, 1, move |sent: &mut usize, io| {
        while *sent < all.len() {
            match io.send(&all[*sent..]) {
                0 => return Next::Wait,
                n => *sent += n,
            }
        }
        io.shutdown();
        if io.peer_closed() { Next::Close } else { Next::Wait }
    });
    let mut pair = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client))
        .unwrap()
        .fault(fault, seed)
        .unwrap();
    let (served, asked) = pair.run().unwrap();
    assert_eq!((served.ended, asked.ended, asked.failed), (1, 1, 0));
    (pair.left.stack().counters().ip.packets_in, pair.right.stack().counters().ip.packets_in)
}

#[test]
fn a_transfer_over_a_bad_cable_is_whole_and_the_same_again_for_the_same_seed() {
    let packets = transfer("loss=3%,delay=2ms", 7);
    assert_eq!(packets, transfer("loss=3%,delay=2ms", 7));
    assert_ne!(packets, transfer("loss=10%,delay=2ms", 8));
}

#[test]
fn applications_that_wait_for_each_other_are_told_to_have_not_finished() {
    let server = serve(7, |_: &mut (), _| Next::Wait);
    let client = connect(Endpoint::new(Addr::v4([10, 0, 0, 1]), 7), 1, |_: &mut (), _| Next::Wait);
    let pair = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client)).unwrap();
    let why = pair.limit(Duration::from_secs(5)).run().map(|_| ()).unwrap_err();
    assert!(matches!(why, Error::NotFinished(5)), "{why}");
}

#[test]
fn what_cannot_be_is_told_in_a_sentence() {
    let server = || answer_datagrams(9, |_, _| true);
    let wrong = |left, right| {
        Pair::new((left, server()), (right, server())).err().map(|why| why.to_string())
    };
    assert!(wrong("10.0.0.1", "10.0.0.2/24").unwrap_or_default().contains("ADDRESS/LENGTH"));
    assert!(
        wrong("10.0.0.1/24", "10.0.0.0/24")
            .unwrap_or_default()
            .contains("10.0.0.0/24 cannot be an address")
    );
    let pair = Pair::new(("10.0.0.1/24", server()), ("10.0.0.2/24", server())).unwrap();
    assert!(
        pair.fault("luck=0", 1)
            .err()
            .map(|why| why.to_string())
            .unwrap_or_default()
            .contains("luck")
    );
}

/// How a client that shut down at once and takes `piece` bytes at a call hears so many bytes and
/// the end that come together.
fn heard(count: usize, piece: usize) -> (usize, crate::Tally) {
    let all = bytes(count);
    let server = serve(7, move |sent: &mut usize, io| {
        if !io.peer_closed() {
            return Next::Wait;
        }
        while *sent < all.len() {
            match io.send(&all[*sent..]) {
                0 => return Next::Wait,
                n => *sent += n,
            }
        }
        Next::Close
    });
    let came = std::rc::Rc::new(std::cell::Cell::new(0));
    let count_of = std::rc::Rc::clone(&came);
    let client = connect(Endpoint::new(Addr::v4([10, 0, 0, 1]), 7), 1, move |_: &mut (), io| {
        io.shutdown();
        let n = io.recv().len().min(piece);
        io.consumed(n);
        count_of.set(count_of.get() + n);
        Next::Wait
    });
    let mut pair = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client)).unwrap();
    let (_, asked) = pair.run().unwrap();
    (came.get(), asked)
}

#[test]
fn all_bytes_are_heard_before_a_conversation_that_shut_down_first_ends() {
    for count in [1, 700, 3_000, 40_000] {
        let (came, asked) = heard(count, 100);
        assert_eq!((came, asked.ended, asked.failed), (count, 1, 0));
    }
}

#[test]
fn a_conversation_that_leaves_bytes_unread_did_not_end_well() {
    let (came, asked) = heard(3_000, 0);
    assert_eq!((came, asked.ended, asked.failed), (0, 1, 1));
}

#[test]
fn connections_to_a_host_that_is_not_there_fail() {
    let server = serve(7, |_: &mut (), _| Next::Wait);
    let client = connect(Endpoint::new(Addr::v4([10, 0, 0, 9]), 7), 3, |_: &mut (), _| Next::Wait);
    let mut pair = Pair::new(("10.0.0.1/24", server), ("10.0.0.2/24", client)).unwrap();
    let (_, asked) = pair.run().unwrap();
    assert_eq!((asked.ended, asked.failed), (3, 3));
}
