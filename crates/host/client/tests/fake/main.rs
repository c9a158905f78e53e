//! Clients against a small host that only echoes: what the client does by itself, in a build small
//! enough for ThreadSanitizer.

mod dispatch;
mod host;
