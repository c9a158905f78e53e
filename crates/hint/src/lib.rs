//! Prefetch behind a safe function.
