//! The `clearway` binary.

fn main() {}
