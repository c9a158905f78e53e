use proptest::prelude::*;

use super::*;

fn notes(table: &mut FlowTable, numbers: &[u32]) -> Vec<Order> {
    numbers.iter().map(|&seq| table.note(0, seq).unwrap()).collect()
}

#[test]
fn gaps_late_ones_and_doubles_are_told_apart() {
    let mut table = FlowTable::new(1);
    use Order::{After, Again, Late, Next};
    let orders = notes(&mut table, &[0, 1, 4, 5, 2, 2, 4, 3, 6, 200, 0, 200]);
    assert_eq!(
        orders,
        [Next, Next, After(2), Next, Late, Again, Again, Late, Next, After(193), Late, Again]
    );
}

#[test]
fn the_first_may_be_missing_and_numbers_may_wrap() {
    let mut table = FlowTable::new(2);
    assert_eq!(table.note(1, 3), Some(Order::After(3)));
    let mut table = FlowTable::new(1);
    for seq in [0x7fff_ffff, 0xffff_fffe] {
        table.note(0, seq);
    }
    assert_eq!(notes(&mut table, &[0xffff_ffff, 0, 1]), [Order::Next; 3]);
    table.clear();
    assert_eq!((table.note(0, 0), table.note(1, 0)), (Some(Order::Next), None));
}

proptest! {
    /// Within the window, numbers that came in any order and any number of times are counted
    /// exactly.
    #[test]
    fn every_number_is_new_once(picks in proptest::collection::vec(0..WINDOW, 0..300)) {
        let mut table = FlowTable::new(1);
        let (mut seen, mut missing, mut top) = (std::collections::BTreeSet::new(), 0i64, 0);
        for seq in picks {
            match table.note(0, seq).unwrap() {
                Order::Next => prop_assert!(seen.insert(seq)),
                Order::After(gap) => { prop_assert!(seen.insert(seq)); missing += i64::from(gap); }
                Order::Late => { prop_assert!(seen.insert(seq)); missing -= 1; }
                Order::Again => prop_assert!(seen.contains(&seq)),
            }
            top = top.max(i64::from(seq) + 1);
            prop_assert_eq!(missing, top - seen.len() as i64);
        }
    }
}
