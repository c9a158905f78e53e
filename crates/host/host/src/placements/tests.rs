use super::*;

#[test]
fn queues_that_change_places_are_found_again() {
    let (iface, other) = (Iface(3), Iface(4));
    let mut placements = Placements::default();
    assert_eq!((placements.worker(iface, 1), placements.queue(iface, 1)), (1, 1));
    placements.swap(iface, 0, 2);
    assert_eq!(
        (placements.worker(iface, 0), placements.worker(iface, 2), placements.worker(iface, 1)),
        (2, 0, 1)
    );
    placements.swap(iface, 2, 1);
    assert_eq!(
        (placements.worker(iface, 0), placements.worker(iface, 1), placements.worker(iface, 2)),
        (1, 2, 0)
    );
    assert_eq!((0..3).map(|worker| placements.queue(iface, worker)).collect::<Vec<_>>(), [2, 0, 1]);
    assert_eq!(placements.worker(other, 0), 0);
    placements.forget(iface);
    assert_eq!(placements.worker(iface, 0), 0);
}
