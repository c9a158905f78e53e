use std::collections::HashSet;
use std::format;
use std::string::{String, ToString};

use super::*;

/// `EthTooShort` as `eth-too-short`.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for c in variant.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(c.to_lowercase());
    }
    name
}

#[test]
fn every_reason_has_one_name_of_its_own_that_follows_from_its_variant() {
    let mut names = HashSet::new();
    for reason in Malformed::ALL {
        assert_eq!(reason.name(), kebab(&format!("{reason:?}")));
        assert!(names.insert(reason.name()), "{reason} twice");
        assert_eq!(reason.to_string(), reason.name());
    }
}

#[test]
fn the_index_is_the_place_in_the_list() {
    assert_eq!(Malformed::COUNT, Malformed::ALL.len());
    for (i, reason) in Malformed::ALL.iter().enumerate() {
        assert_eq!(reason.index(), i);
    }
}
