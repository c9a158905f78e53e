//! The terminal while it is ours, and as it was when it is not any more: by whichever way this
//! ends.

use std::io::Write as _;
use std::panic;

use anyhow::Context as _;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::screen::Screen;
use crate::out::{self, Out};

/// The terminal while it is ours.
pub(super) struct Terminal(ratatui::Terminal<CrosstermBackend<Out>>);

impl Terminal {
    pub(super) fn take() -> anyhow::Result<Terminal> {
        // What a panic says would be lost with the screen that it is said on.
        let said = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            said(panic);
        }));
        enable_raw_mode().context("cannot take the terminal")?;
        let taken = execute!(out::stdout(), EnterAlternateScreen)
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(out::stdout())));
        match taken {
            Ok(terminal) => Ok(Terminal(terminal)),
            Err(error) => {
                restore();
                Err(error).context("cannot take the terminal")
            }
        }
    }

    pub(super) fn draw(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        self.0.draw(|frame| screen.draw(frame)).context("the terminal is gone")?;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// To be done twice does no harm, and a terminal that is gone needs nothing.
fn restore() {
    let _ = execute!(out::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = out::stdout().flush();
}
