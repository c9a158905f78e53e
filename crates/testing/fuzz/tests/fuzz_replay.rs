//! Replays the corpora of the fuzz targets, and inputs made from them by cutting and flipping.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the fuzzer found the input: it names files by their SHA-1, and we name ours in words.
fn is_found(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 40)
}

fn corpus(target: &str, of_these: fn(&Path) -> bool) -> Vec<Vec<u8>> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("every target has a corpus")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.retain(|path| of_these(path));
    paths.sort();
    assert!(!paths.is_empty(), "the corpus of {target} is empty");
    paths.iter().map(|path| fs::read(path).expect("a readable corpus file")).collect()
}

#[test]
fn every_frame_input_is_survived() {
    for input in corpus("frame", |_| true) {
        clearway_fuzz::frame(&input);
    }
}

#[test]
fn every_segments_input_is_survived() {
    for input in corpus("segments", |_| true) {
        clearway_fuzz::segments(&input);
    }
}

#[test]
fn every_peer_input_is_survived() {
    for input in corpus("peer", |_| true) {
        clearway_fuzz::peer(&input);
    }
}

/// A target of texts.
type Target = fn(&[u8]);

const TEXTS: [(&str, Target); 4] = [
    ("command", clearway_fuzz::command),
    ("config", clearway_fuzz::config),
    ("script", clearway_fuzz::script),
    ("vcl", clearway_fuzz::vcl),
];

#[test]
fn every_text_is_survived() {
    for (name, target) in TEXTS {
        corpus(name, |_| true).iter().for_each(|input| target(input));
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_text_is_survived() {
    for (name, target) in TEXTS {
        for input in corpus(name, |path| !is_found(path)) {
            damaged(&input, target);
        }
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_frame_input_is_survived() {
    // Those written by hand are small and stand for every kind of packet; all of the corpus would
    // take minutes.
    for input in corpus("frame", |path| !is_found(path)) {
        damaged(&input, clearway_fuzz::frame);
    }
}

#[test]
fn every_import_input_and_every_truncation_and_every_flipped_bit_of_it_is_survived() {
    for input in corpus("import", |_| true) {
        clearway_fuzz::import(&input);
    }
    // The long ones are mostly payload.
    for input in
        corpus("import", |path| !is_found(path)).into_iter().filter(|input| input.len() < 3_000)
    {
        damaged(&input, clearway_fuzz::import);
    }
}

/// Every truncation, and every flipped bit.
fn damaged(input: &[u8], target: impl Fn(&[u8])) {
    for len in 0..input.len() {
        target(&input[..len]);
    }
    for bit in 0..input.len() * 8 {
        let mut flipped = input.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        target(&flipped);
    }
}
