//! Settings that are read again while the host runs: all that changed is taken over, or nothing.

use clearway_command::AppNamespace;

use super::plane::{Control, OnReload, State};
use crate::NamespaceSpec;
use crate::config::{NamespaceSetting, Settings};
use crate::namespaces::NamespaceChanges;
use crate::outcome::{Answer, CommandError, Output, locked};

impl Settings {
    /// Whether a host that runs with these settings may go on with `new`.
    pub fn may_become(&self, new: &Settings) -> Result<(), CommandError> {
        let fixed = self.differs_for_good(new);
        if fixed.is_empty() { Ok(()) } else { Err(CommandError::Fixed(fixed.join(", "))) }
    }

    /// Rows of `show settings` that `new` says otherwise, in words.
    fn told_otherwise(&self, new: &Settings) -> Vec<String> {
        let (old, new) = (self.shown(), new.shown());
        let pairs = old.iter().zip(&new).filter(|(old, new)| old != new);
        pairs.map(|((key, old), (_, new))| format!("{key} {new} (was {old})")).collect()
    }
}

impl Control {
    /// Takes over what `new` says otherwise than `old`: namespaces, and what each program may have,
    /// for programs that come from now on. Answers what was done, as a sentence. When anything else
    /// differs that the host cannot change, or something cannot be done, nothing is.
    pub fn reload(&self, old: &Settings, new: &Settings) -> Result<String, CommandError> {
        old.may_become(new)?;
        let mut state = self.lock();
        let is_in =
            |all: &[NamespaceSetting], id: &str| all.iter().any(|namespace| namespace.id == id);
        let changed = new.namespaces.iter().filter(|namespace| !old.namespaces.contains(namespace));
        let put = changed
            .map(|namespace| self.spec_of(&state, namespace))
            .collect::<Result<Vec<_>, _>>()?;
        let gone = old.namespaces.iter().filter(|namespace| !is_in(&new.namespaces, &namespace.id));
        let remove: Vec<String> = gone.map(|namespace| namespace.id.clone()).collect();
        let namespaces = told(&put, &remove, |id| is_in(&old.namespaces, id));
        let mut said: Vec<String> = namespaces.into_iter().collect();
        said.extend(old.told_otherwise(new));
        let program = Some(new.program);
        self.host.change_namespaces(NamespaceChanges { put, remove, program })??;
        state.settings = new.shown();
        self.tell_dns_of_settings(new);
        // Which is when programs ask anew whom they ask for names, too.
        self.changed();
        Ok(if said.is_empty() { "nothing to take over".into() } else { said.join("; ") })
    }

    fn spec_of(
        &self,
        state: &State,
        namespace: &NamespaceSetting,
    ) -> Result<NamespaceSpec, CommandError> {
        self.namespace_spec(state, &AppNamespace::from(namespace))
    }

    /// What `reload` does. Without one, a host has no settings to read again.
    pub fn set_on_reload(&self, on_reload: OnReload) {
        *locked(&self.on_reload) = Some(on_reload);
    }

    /// The command. Nothing is locked meanwhile: whoever reloads comes back to [`Control::reload`].
    pub(super) fn ask_reload(&self, as_json: bool) -> Answer {
        let done = match &*locked(&self.on_reload) {
            Some(on_reload) => on_reload().map_err(|(code, why)| CommandError::Told(code, why)),
            None => Err(CommandError::NotBuiltIn("a file of settings that could be read again")),
        };
        match done {
            Ok(said) => {
                let json = serde_json::json!({ "taken-over": said });
                Answer::of(Output::new(format!("{said}\n"), json), as_json)
            }
            Err(error) => Answer::failed(&error, as_json),
        }
    }
}

fn told(
    put: &[NamespaceSpec],
    remove: &[String],
    was_there: impl Fn(&str) -> bool,
) -> Option<String> {
    let (changed, added): (Vec<&str>, Vec<&str>) =
        put.iter().map(|spec| spec.id.as_str()).partition(|id| was_there(id));
    let gone = remove.iter().map(String::as_str).collect();
    let all = [("added", added), ("changed", changed), ("taken away", gone)];
    let all: Vec<String> = all
        .iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(what, ids)| format!("{what}: {}", ids.join(", ")))
        .collect();
    (!all.is_empty()).then(|| format!("namespaces {}", all.join("; ")))
}
