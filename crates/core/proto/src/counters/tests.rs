extern crate std;

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_reason_has_its_own_name_in_kebab_case() {
    let names: BTreeSet<&str> = Drop::all().map(|d| d.name()).collect();
    assert_eq!(names.len(), Drop::all().count());
    for name in names {
        assert!(!name.is_empty() && !name.starts_with('-') && !name.ends_with('-'), "{name}");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{name}"
        );
    }
}

#[test]
fn a_drop_is_counted_under_its_own_reason_only() {
    for (place, why) in Drop::all().enumerate() {
        assert_eq!(why.index(), place);
        let mut counters = Counters::default();
        counters.dropped(why);
        assert_eq!(counters.drops_total(), 1);
        assert_eq!(counters.drops(why), 1);
        assert_eq!(
            counters
                .each_drop()
                .filter(|&(_, n)| n == 1)
                .map(|(d, _)| d)
                .collect::<std::vec::Vec<_>>(),
            [why]
        );
    }
}
