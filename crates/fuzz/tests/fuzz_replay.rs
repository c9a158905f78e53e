//! Replays the corpora of the fuzz targets, and inputs made from them by cutting and flipping.

use std::fs;
use std::path::PathBuf;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("every target has a corpus")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "the corpus of {target} is empty");
    paths.iter().map(|path| fs::read(path).expect("a readable corpus file")).collect()
}

#[test]
fn every_frame_input_is_survived() {
    for input in corpus("frame") {
        clearway_fuzz::frame(&input);
    }
}

#[test]
fn every_segments_input_is_survived() {
    for input in corpus("segments") {
        clearway_fuzz::segments(&input);
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_frame_input_is_survived() {
    // The first inputs are the small ones written by hand; all of the corpus would take minutes.
    for input in corpus("frame").into_iter().filter(|input| input.len() <= 100).take(12) {
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
