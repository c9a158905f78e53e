use super::*;

fn sent(kind: u32, key: u32, at: u64) -> SentAt {
    SentAt { kind, key, at }
}

#[test]
fn a_mark_is_told_when_its_last_byte_leaves_and_when_it_is_acknowledged() {
    let mut departures = Departures::begin(&Memory::of_test()).expect("memory");
    let mut process = Producer::new(departures.blocks.mem.clone());
    let all = u64::from(TX_SCHED | TX_SOFTWARE | TX_ACK) << 32;
    assert_eq!(process.push_stamp(StampRecord::new(all | 9, 10)), Ok(true));
    assert_eq!(process.push_stamp(StampRecord::new(all | 19, 20)), Ok(true));
    assert!(!departures.left(9, 100), "all but the last byte");
    assert!(departures.left(10, 200));
    assert!(!departures.left(10, 300), "sent once more");
    assert!(!departures.acknowledged(9, 400));
    assert!(departures.acknowledged(10, 500));
    assert!(departures.left(20, 600));
    let told: Vec<_> = std::iter::from_fn(|| departures.next()).collect();
    assert_eq!(
        told,
        [
            sent(SCHEDULED, 9, 200),
            sent(SENT, 9, 200),
            sent(ACKNOWLEDGED, 9, 500),
            sent(SCHEDULED, 19, 600),
            sent(SENT, 19, 600),
        ]
    );
}

#[test]
fn positions_go_round() {
    let mut departures = Departures::begin(&Memory::of_test()).expect("memory");
    let mut process = Producer::new(departures.blocks.mem.clone());
    let what = u64::from(TX_SOFTWARE) << 32;
    process.push_stamp(StampRecord::new(what, 5)).expect("honest");
    assert!(!departures.left(u32::MAX - 5, 1));
    assert!(departures.left(5, 2));
}

#[test]
fn what_a_program_asks_for_beyond_all_bounds_is_not_told() {
    let mut departures = Departures::begin(&Memory::of_test()).expect("memory");
    let mut process = Producer::new(departures.blocks.mem.clone());
    let what = u64::from(TX_SCHED | TX_SOFTWARE | TX_ACK) << 32;
    let mut end = 0;
    for _ in 0..5 * MOST {
        end += 1;
        process.refresh().expect("honest");
        process.push_stamp(StampRecord::new(what, end)).expect("honest");
        departures.left(end, 1);
        departures.acknowledged(end, 1);
    }
    assert_eq!(departures.waiting_to_be_told() as usize, MOST);
}

#[test]
fn times_of_arrival_that_find_no_room_become_one() {
    let mut arrivals = Arrivals::begin(&Memory::of_test(), 7).expect("memory");
    let mut process = Consumer::new(arrivals.blocks.mem.clone());
    for end in 8..3000 {
        arrivals.came(end, u64::from(end));
    }
    assert_eq!(process.stamp_behind(0), Ok(Some(StampRecord::new(0, 7))));
    assert_eq!(process.stamp_behind(1023), Ok(Some(StampRecord::new(1030, 1030))));
    assert_eq!(process.stamp_behind(1024), Ok(None));
    process.consume_stamps(1024);
    assert!(arrivals.catch_up());
    assert_eq!(process.stamp_behind(0), Ok(Some(StampRecord::new(2999, 2999))));
    assert_eq!(process.stamp_behind(1), Ok(None));
}
