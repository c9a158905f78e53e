//! A small HTTP/1.1 server that runs inside the engine's turn.
