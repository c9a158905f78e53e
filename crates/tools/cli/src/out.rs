//! Standard output. Its reader may go away before the end, as in `clearway ss | head`: that ends the
//! command without a word, and is no failure.

use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal as _, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// What everything that goes to standard output is written to.
pub(crate) struct Out(Stdout);

#[expect(clippy::disallowed_methods, reason = "everything else comes here")]
pub(crate) fn stdout() -> Out {
    Out(io::stdout())
}

/// Writes it all, to the end of it, not to that of its last line.
pub(crate) fn all(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_ref())?;
    Ok(out.flush()?)
}

impl Out {
    pub(crate) fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }
}

impl AsFd for Out {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(told)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(told)
    }
}

/// Nobody reads standard output any more.
#[derive(Debug)]
struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output any more")
    }
}

impl Error for ReaderGone {}

/// Tells the end of this pipe from that of any other, which is a failure.
fn told(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        _ => error,
    }
}

/// Whether a command ended because nobody read on.
pub(crate) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let is_it = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<ReaderGone>());
    error.chain().filter_map(|cause| cause.downcast_ref()).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_this_pipe_is_told_from_that_of_others() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let own = anyhow::Error::from(told(broken())).context("cannot say it");
        assert!(is_reader_gone(&own));
        assert!(!is_reader_gone(&anyhow::Error::from(broken()).context("the host is gone")));
        assert!(!is_reader_gone(&told(io::ErrorKind::StorageFull.into()).into()));
    }
}
