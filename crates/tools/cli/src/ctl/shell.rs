//! The shell: a line editor whose completion and help come from the grammar, with the names that
//! the host knows.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_command::{Kind, Names, complete, has_secret, help};
use clearway_host::Outcome;
use reedline::{
    ColumnarMenu, Completer, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory,
    History, HistoryItem, HistoryItemId, HistorySessionId, KeyCode, KeyModifiers, MenuBuilder as _,
    Reedline, ReedlineEvent, ReedlineMenu, SearchQuery, Signal, Span, Suggestion,
    default_emacs_keybindings,
};
use serde_json::Value;

use super::Host;
use crate::out;

/// Lines that are remembered.
const HISTORY: usize = 10_000;

type Shared = Arc<Mutex<Host>>;

pub(super) fn run(host: Host, json: bool) -> anyhow::Result<()> {
    let host: Shared = Arc::new(Mutex::new(host));
    let mut editor = editor(&host);
    let prompt = DefaultPrompt::new(
        DefaultPromptSegment::Basic("clearway".into()),
        DefaultPromptSegment::Empty,
    );
    loop {
        let line = match editor.read_line(&prompt)? {
            Signal::Success(line) => line,
            Signal::CtrlC => continue,
            _ => return Ok(()),
        };
        if let Some(asked) = line.trim_end().strip_suffix('?') {
            out::all(help(asked, &HostNames::new(&host)))?;
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let answer = host.lock().unwrap_or_else(PoisonError::into_inner).ask(&line, json)?;
        out::all(answer.text)?;
        if answer.outcome == Outcome::Quit {
            return Ok(());
        }
    }
}

fn editor(host: &Shared) -> Reedline {
    let menu = ColumnarMenu::default().with_name("words");
    let mut keys = default_emacs_keybindings();
    let tab = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu("words".into()),
        ReedlineEvent::MenuNext,
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, tab);
    let editor = Reedline::create()
        .with_completer(Box::new(Words(Arc::clone(host))))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)));
    match history_file().and_then(|path| FileBackedHistory::with_file(HISTORY, path).ok()) {
        Some(history) => editor.with_history(Box::new(NoSecrets(history))),
        None => editor,
    }
}

/// Where the lines of former shells are.
fn history_file() -> Option<PathBuf> {
    let folder = crate::folders::state()?.join("clearway");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let file = folder.join("history");
    // Names and addresses in it are nobody else's concern; one that was made before is closed to
    // others, too.
    let made = std::fs::File::options().create(true).append(true).mode(0o600).open(&file).ok()?;
    made.set_permissions(std::fs::Permissions::from_mode(0o600)).ok()?;
    Some(file)
}

/// Completion out of the grammar.
struct Words(Shared);

impl Completer for Words {
    fn complete(&mut self, line: &str, at: usize) -> Vec<Suggestion> {
        let candidates = complete(&line[..at], &HostNames::new(&self.0));
        let suggestion = |candidate: clearway_command::Candidate| Suggestion {
            value: candidate.text,
            description: Some(candidate.help),
            span: Span::new(candidate.start, at),
            append_whitespace: true,
            ..Suggestion::default()
        };
        candidates.into_iter().filter(|candidate| candidate.literal).map(suggestion).collect()
    }
}

/// Names that the host knows, asked for when one is wanted.
struct HostNames(Shared);

impl HostNames {
    fn new(host: &Shared) -> HostNames {
        HostNames(Arc::clone(host))
    }

    /// The values under `key` in the rows of a list that the host shows.
    fn column(&self, line: &str, list: &str, key: &str) -> Option<Vec<String>> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).ask(line, true).ok()?;
        let json: Value = serde_json::from_str(&answer.text).ok()?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(json.get(list)?.as_array()?.iter().filter_map(|row| row.get(key)).map(text).collect())
    }
}

impl Names for HostNames {
    fn of(&self, kind: Kind) -> Vec<String> {
        let names = match kind {
            Kind::Interface => self.column("show interface address", "interfaces", "name"),
            Kind::Namespace => self.column("show app ns", "namespaces", "id"),
            Kind::Table => self.column("show ip table", "tables", "table"),
            Kind::Worker => self.column("show threads", "threads", "worker"),
            _ => None,
        };
        names.unwrap_or_default()
    }
}

/// A history that forgets lines with secrets in them.
struct NoSecrets(FileBackedHistory);

impl History for NoSecrets {
    fn save(&mut self, item: HistoryItem) -> reedline::Result<HistoryItem> {
        if has_secret(&item.command_line) { Ok(item) } else { self.0.save(item) }
    }

    fn load(&self, id: HistoryItemId) -> reedline::Result<HistoryItem> {
        self.0.load(id)
    }

    fn count(&self, query: SearchQuery) -> reedline::Result<i64> {
        self.0.count(query)
    }

    fn search(&self, query: SearchQuery) -> reedline::Result<Vec<HistoryItem>> {
        self.0.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> reedline::Result<()> {
        self.0.update(id, updater)
    }

    fn clear(&mut self) -> reedline::Result<()> {
        self.0.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> reedline::Result<()> {
        self.0.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.0.session()
    }
}
