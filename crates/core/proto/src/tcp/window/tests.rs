use clearway_wire::Seq;
use proptest::prelude::*;

use super::{Room, scale_for, syn_field};

fn room(nxt: u32, edge: u32, room: u32, scale: u8) -> Room {
    Room { nxt: Seq(nxt), edge: Seq(edge), room, limit: 1 << 20, mss: 1460, scale }
}

#[test]
fn the_scale_is_the_smallest_that_can_say_the_window() {
    assert_eq!(scale_for(0), 0);
    assert_eq!(scale_for(65_535), 0);
    assert_eq!(scale_for(65_536), 1);
    assert_eq!(scale_for(4 * 1024 * 1024), 7);
    assert_eq!(scale_for(1 << 30), 14);
    assert_eq!(scale_for(u32::MAX), 14);
}

#[test]
fn a_syn_says_at_most_what_fits_unscaled() {
    assert_eq!(syn_field(1000), 1000);
    assert_eq!(syn_field(1 << 20), 65_535);
}

#[test]
fn free_room_is_offered_whole() {
    let o = room(1000, 1000, 40_000, 0).offer();
    assert_eq!((o.field, o.edge), (40_000, Seq(41_000)));
    let o = room(1000, 1000, 1 << 20, 7).offer();
    assert_eq!((o.field, o.edge), (8192, Seq(1000 + (1 << 20))));
    // More than the field can say is cut.
    assert_eq!(room(0, 0, 1 << 20, 0).offer().field, 65_535);
}

#[test]
fn small_gains_are_kept_back_and_the_edge_stays() {
    let o = room(2000, 10_000, 8000 + 1459, 0).offer();
    assert_eq!((o.field, o.edge), (8000, Seq(10_000)));
    let o = room(2000, 10_000, 8000 + 1460, 0).offer();
    assert_eq!((o.field, o.edge), (9460, Seq(11_460)));
}

#[test]
fn a_small_buffer_opens_by_half_of_itself() {
    let small = Room { limit: 1000, ..room(0, 0, 500, 0) };
    assert_eq!(small.offer().field, 500);
    assert_eq!(Room { room: 499, ..small }.offer().field, 0);
}

#[test]
fn the_promised_edge_is_never_taken_back() {
    let o = room(2000, 10_000, 100, 0).offer();
    assert_eq!((o.field, o.edge), (8000, Seq(10_000)));
}

#[test]
fn a_full_store_closes_the_window() {
    let o = room(10_000, 10_000, 0, 0).offer();
    assert_eq!((o.field, o.edge), (0, Seq(10_000)));
    let o = room(10_000, 10_000, 0, 7).offer();
    assert_eq!((o.field, o.edge), (0, Seq(10_000)));
}

#[test]
fn the_edge_wraps() {
    let o = room(u32::MAX - 100, u32::MAX - 100, 50_000, 0).offer();
    assert_eq!((o.field, o.edge), (50_000, Seq(u32::MAX - 100) + 50_000));
}

#[test]
fn an_update_of_its_own_is_for_two_segments_or_a_window_that_was_shut() {
    assert!(!room(0, 8000, 8000 + 2000, 0).worth_telling());
    assert!(room(0, 8000, 8000 + 2920, 0).worth_telling());
    assert!(room(0, 0, 1460, 0).worth_telling());
    assert!(!room(0, 0, 1459, 0).worth_telling());
    assert!(!room(0, 0, 0, 7).worth_telling());
}

#[test]
fn a_window_of_half_or_less_is_worth_telling_when_it_doubles() {
    // A buffer of two segments, of which one has come and was read: less than half of it is left by
    // a fraction of the scale's step.
    let two = Room { limit: 130_000, mss: 65_000, ..room(0, 63_488, 129_024, 10) };
    assert!(two.is_low() && two.worth_telling());
    assert!(!Room { room: 120_000, ..two }.worth_telling());
    let more = Room { edge: Seq(66_000), ..two };
    assert!(!more.is_low() && !more.worth_telling());
    // Half of what can be said at all, where the peer does not scale.
    assert!(!room(0, 40_000, 65_535, 0).is_low() && room(0, 30_000, 65_535, 0).is_low());
}

proptest! {
    /// Segments of one odd size arrive, the owner reads now and then: the edge never goes back,
    /// what the peer sees is never more than one step of the scale away from it, and the window is
    /// never more than one step larger than the store.
    #[test]
    fn edge_and_field_stay_honest(
        scale in 0u8..=14,
        limit in 4096u32..200_000,
        start in any::<u32>(),
        ops in prop::collection::vec((1u32..3000, 0u32..6000), 1..200),
    ) {
        let step = 1u64 << scale;
        let (mut nxt, mut edge) = (Seq(start), Seq(start));
        let mut unread = 0u32;
        for (arrives, reads) in ops {
            let r = Room { nxt, edge, room: limit - unread, limit, mss: 1460, scale };
            let o = r.offer();
            prop_assert!(o.edge.ge(edge));
            let window = u64::from(o.field) << scale;
            prop_assert!(window < u64::from(r.room) + step);
            let promised = u64::from(o.edge.since(nxt));
            prop_assert!(promised < window + step);
            edge = o.edge;
            let n = arrives.min(window.min(u64::from(r.room)) as u32);
            nxt += n;
            unread += n;
            unread -= reads.min(unread);
        }
    }
}
