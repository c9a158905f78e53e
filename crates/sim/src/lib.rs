//! A deterministic world of stacks and bad links, replayed by seed.
