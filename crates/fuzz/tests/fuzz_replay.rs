//! Replays the corpora of the fuzz targets, and inputs made from them by cutting and flipping.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the fuzzer found the input: it names files by their SHA-1, and we name ours in words.
fn is_found(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 40)
}

fn corpus(target: &str, of_these: fn(&Path) -> bool) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
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
fn every_truncation_and_every_flipped_bit_of_a_frame_input_is_survived() {
    // Those written by hand are small and stand for every kind of packet; all of the corpus would take minutes.
    for input in corpus("frame", |path| !is_found(path)) {
        for len in 0..input.len() {
            clearway_fuzz::frame(&input[..len]);
        }
        for bit in 0..input.len() * 8 {
            let mut flipped = input.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            clearway_fuzz::frame(&flipped);
        }
    }
}
