//! Exports compared: what one stack wrote, and what another one writes that has imported it.

use std::collections::BTreeMap;

/// Bytes before the first record, and before the value of a record or a field.
const HEADER_LEN: usize = 6;
const HEAD_LEN: usize = 6;

/// The record about the stack itself: it holds random numbers that are new each time.
const STACK: u16 = 1;

/// Fields that hold names, by kind of record: they are others in another stack. An owner's word
/// names a listener while nobody has accepted.
const NAMES: [(u16, &[u16]); 5] = [(7, &[1]), (8, &[1, 5]), (9, &[6]), (10, &[6, 10]), (12, &[1])];

/// Where the table of neighbours was full, others were forgotten: it is not compared.
const NEIGHBOUR: u16 = 5;

/// Splits what is a row of numbers, lengths and values.
fn split(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(HEAD_LEN) {
        let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let Some((value, behind)) = rest.split_at_checked(len) else { break };
        found.push((u16::from_le_bytes([head[0], head[1]]), value));
        bytes = behind;
    }
    found
}

/// The kind of a record, and its fields.
type Record = (u16, Vec<(u16, Vec<u8>)>);

/// The records of an export without names, each with how often it is there.
fn records(export: &[u8]) -> BTreeMap<Record, u32> {
    let mut all = BTreeMap::new();
    for (kind, fields) in split(export.get(HEADER_LEN..).unwrap_or(&[])) {
        if kind == STACK || kind == NEIGHBOUR {
            continue;
        }
        let names = NAMES.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, names)| *names);
        let kept = split(fields).into_iter().filter(|(tag, _)| !names.contains(tag));
        let kept = kept.map(|(tag, value)| (tag, value.to_vec())).collect();
        *all.entry((kind, kept)).or_default() += 1;
    }
    all
}

/// What two exports of the same state do not have in common, in words; nothing when they have the
/// same records.
pub fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    let (one, other) = (records(one), records(other));
    let only = |these: &BTreeMap<Record, u32>, those: &BTreeMap<Record, u32>| {
        these
            .iter()
            .find(|(record, count)| those.get(*record) != Some(count))
            .map(|(record, _)| Clone::clone(record))
    };
    let ((kind, was), (_, is)) = (only(&one, &other)?, only(&other, &one).unwrap_or_default());
    let fields: Vec<u16> =
        was.iter().filter(|field| !is.contains(field)).map(|(tag, _)| *tag).collect();
    Some(format!("a record of kind {kind}, in its fields {fields:?}"))
}
