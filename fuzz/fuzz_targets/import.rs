#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| clearway_fuzz::import(data));
