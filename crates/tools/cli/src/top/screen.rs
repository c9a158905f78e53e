//! What stands on the screen, and what keys do.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState};

use super::sample::Sample;
use super::table::{self, Column};
use super::view::{Between, Sort};

/// Lines of workers at most: there is to be room for sessions on the smallest screen.
const WORKER_LINES: usize = 4;

/// Lines of programs at most, with their heading, when there are more sessions than fit.
const PROGRAM_LINES: u16 = 7;

const HELP: &str = "\
 b  sort by bytes a second        r  by those that came
 t  by those that went            x  by segments sent again
 m  by memory, or bytes queued    n  by name
 i  the other way round           /  show only what has a text in it
 up, down, page up, page down     choose a session
 k  reset the chosen session (asks first)
 p  pause, and go on              q  end

RX/s and TX/s are bytes of payload, RETR/s segments sent again.
Numbers behind a worker are per cent of its cycles by stage.";

/// What keys mean just now.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Mode {
    Look,
    Help,
    Filter,
    /// Whether this session is to be reset, with its name and how it is shown.
    Ask {
        name: String,
        shown: String,
    },
}

/// What stands on the screen.
pub(super) struct Screen {
    before: Option<Sample>,
    now: Option<Sample>,
    /// Why nobody answers.
    gone: Option<String>,
    shown: Option<Between>,
    sort: Sort,
    reversed: bool,
    filter: String,
    paused: bool,
    mode: Mode,
    message: String,
    /// The session that was chosen, by its full name: it stays chosen when rows move.
    chosen: Option<String>,
    rows: TableState,
    to_kill: Option<String>,
}

impl Screen {
    pub(super) fn new(sort: Sort, filter: String) -> Screen {
        Screen {
            before: None,
            now: None,
            gone: None,
            shown: None,
            sort,
            reversed: false,
            filter,
            paused: false,
            mode: Mode::Look,
            message: String::new(),
            chosen: None,
            rows: TableState::default(),
            to_kill: None,
        }
    }

    /// Somebody has looked.
    pub(super) fn look(&mut self, look: Result<Sample, String>) {
        match look {
            Ok(_) if self.paused => self.gone = None,
            Ok(sample) => {
                // Numbers of another host are no beginning for these.
                let is_new = self.gone.take().is_some();
                self.before = if is_new { None } else { self.now.take() };
                self.now = Some(sample);
                self.arrange();
            }
            Err(why) => self.gone = Some(why),
        }
    }

    /// Says something below, until the next key.
    pub(super) fn say(&mut self, message: String) {
        self.message = message;
    }

    /// The session that is to be reset.
    pub(super) fn take_kill(&mut self) -> Option<String> {
        self.to_kill.take()
    }

    /// Does what a key says; false: it ends.
    pub(super) fn key(&mut self, key: KeyCode) -> bool {
        self.message.clear();
        match std::mem::replace(&mut self.mode, Mode::Look) {
            Mode::Look => return self.command(key),
            Mode::Help => {}
            Mode::Filter => self.filter_key(key),
            Mode::Ask { name, .. } => {
                if matches!(key, KeyCode::Char('y' | 'Y')) {
                    self.to_kill = Some(name);
                } else {
                    self.say("nothing was reset".into());
                }
            }
        }
        true
    }

    fn command(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('q') => return false,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('b') => self.sort_by(Sort::Rate),
            KeyCode::Char('r') => self.sort_by(Sort::Receive),
            KeyCode::Char('t') => self.sort_by(Sort::Send),
            KeyCode::Char('x') => self.sort_by(Sort::Retransmits),
            KeyCode::Char('m') => self.sort_by(Sort::Memory),
            KeyCode::Char('n') => self.sort_by(Sort::Name),
            KeyCode::Char('i') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('k') => self.ask_to_kill(),
            KeyCode::Up => self.choose(-1),
            KeyCode::Down => self.choose(1),
            KeyCode::PageUp => self.choose(-10),
            KeyCode::PageDown => self.choose(10),
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.arrange();
            }
            _ => {}
        }
        true
    }

    fn filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter.clear();
                return self.arrange();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.mode = Mode::Filter;
        self.arrange();
    }

    fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.arrange();
    }

    fn arrange(&mut self) {
        let Some(now) = &self.now else { return };
        let between = Between::new(self.before.as_ref(), now);
        let between = between.sorted(self.sort, self.reversed).with(&self.filter);
        let at = |name: &String| between.sessions.iter().position(|row| row.full_name() == *name);
        self.rows.select(self.chosen.as_ref().and_then(at));
        if self.rows.selected().is_none() {
            self.chosen = None;
        }
        self.shown = Some(between);
    }

    fn choose(&mut self, by: isize) {
        let Some(shown) = self.shown.as_ref().filter(|shown| !shown.sessions.is_empty()) else {
            return;
        };
        let last = shown.sessions.len() - 1;
        let at = match self.rows.selected() {
            Some(at) => at.saturating_add_signed(by).min(last),
            None => 0,
        };
        self.rows.select(Some(at));
        self.chosen = Some(shown.sessions[at].full_name());
    }

    fn ask_to_kill(&mut self) {
        let chosen = self.rows.selected().zip(self.shown.as_ref());
        let Some(row) = chosen.and_then(|(at, shown)| shown.sessions.get(at)) else {
            return self.say("choose a session with the arrow keys first".into());
        };
        if !row.is_connection() {
            return self.say(format!("session {} is no connection", row.session.id));
        }
        let session = &row.session;
        let shown =
            format!("{} of {}, {} > {}", session.id, row.program, session.local, session.remote);
        self.mode = Mode::Ask { name: row.full_name(), shown };
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let workers = self.shown.as_ref().map_or(0, |shown| shown.workers.len()).min(WORKER_LINES);
        let programs = self.shown.as_ref().map_or(0, |shown| shown.programs.len() + 1);
        let programs = u16::try_from(programs).unwrap_or(u16::MAX).min(PROGRAM_LINES);
        let [head, of_workers, of_programs, of_sessions, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(workers as u16),
            Constraint::Length(programs + 1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(area);
        if let Some(shown) = &self.shown {
            let lines = table::summary(shown).map(Line::from);
            frame.render_widget(Paragraph::new(Text::from(lines.to_vec())), head);
            let lines: Vec<Line<'_>> = shown
                .workers
                .iter()
                .take(WORKER_LINES)
                .enumerate()
                .map(|(number, row)| Line::from(table::worker(number, row)))
                .collect();
            frame.render_widget(Paragraph::new(lines), of_workers);
            let rows = shown.programs.iter().map(table::program).collect();
            let programs = grid(table::PROGRAMS, rows, self.sort);
            frame.render_widget(programs, of_programs);
            let rows = shown.sessions.iter().map(table::session).collect();
            let sessions = grid(table::SESSIONS, rows, self.sort)
                .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
            frame.render_stateful_widget(sessions, of_sessions, &mut self.rows);
        } else {
            frame.render_widget(Paragraph::new("waiting for the host"), head);
        }
        frame.render_widget(Paragraph::new(self.foot()), foot);
        self.draw_above(frame, area);
    }

    fn foot(&self) -> Line<'static> {
        let order = if self.reversed { " reversed" } else { "" };
        match &self.mode {
            Mode::Filter => Line::from(format!("show only: {}_", self.filter)),
            Mode::Ask { shown, .. } => {
                let text = format!("reset {shown}? y / n");
                Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
            }
            _ if !self.message.is_empty() => Line::from(self.message.clone()),
            _ => {
                let paused = if self.paused { "PAUSED  " } else { "" };
                let filter = match self.filter.as_str() {
                    "" => String::new(),
                    filter => format!("only `{filter}`  "),
                };
                let sort = format!("{:?}", self.sort).to_lowercase();
                Line::from(format!(
                    "{paused}{filter}sorted by {sort}{order}   ? help  / filter  k reset  p pause  \
                     q end"
                ))
            }
        }
    }

    /// What covers the rest: that the host is gone, or the help.
    fn draw_above(&self, frame: &mut Frame<'_>, area: Rect) {
        let (title, text) = match (&self.gone, &self.mode) {
            (Some(why), _) => {
                (" the host is gone ", format!("{why}\n\nWaiting for it to come back; q ends."))
            }
            (None, Mode::Help) => (" keys ", HELP.to_owned()),
            _ => return,
        };
        let width = area.width.min(76);
        let inner = usize::from(width.saturating_sub(4)).max(1);
        // Long sentences go over several lines.
        let lines: usize = text.lines().map(|line| line.chars().count() / inner + 1).sum();
        let height = u16::try_from(lines + 2).unwrap_or(u16::MAX).min(area.height);
        let at = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        frame.render_widget(Clear, at);
        let wrap = ratatui::widgets::Wrap { trim: false };
        let block = Block::bordered().title(title);
        frame.render_widget(Paragraph::new(text).wrap(wrap).block(block), at);
    }
}

fn grid(columns: &[Column], rows: Vec<Vec<String>>, sort: Sort) -> Table<'static> {
    let place = |column: &Column, text: Text<'static>| {
        let way = if table::is_number(column) { Alignment::Right } else { Alignment::Left };
        Cell::from(text.alignment(way))
    };
    let heads = columns.iter().map(|column| {
        let style = match column.sort {
            Some(of) if of == sort => Modifier::REVERSED,
            _ => Modifier::BOLD,
        };
        place(column, Text::from(column.head)).style(Style::new().add_modifier(style))
    });
    let rows = rows.into_iter().map(|cells| {
        Row::new(cells.into_iter().zip(columns).map(|(cell, column)| place(column, cell.into())))
    });
    let widths = columns.iter().map(|column| match column.width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let widths: Vec<Constraint> = widths.collect();
    Table::new(rows.collect::<Vec<_>>(), widths).header(Row::new(heads.collect::<Vec<_>>()))
}
