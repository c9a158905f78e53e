//! Settings that are read again while the host runs: all that changed is taken over, or nothing.

use clearway_command::AppNamespace;

use super::plane::{Control, State};
use crate::NamespaceSpec;
use crate::config::{NamespaceSetting, Settings};
use crate::namespaces::NamespaceChanges;
use crate::outcome::CommandError;

impl Control {
    /// Takes over what `new` says otherwise than `old`: namespaces, for programs that come from now
    /// on. Answers what was done, as a sentence. When anything else differs, or something cannot be
    /// done, nothing is.
    pub fn reload(&self, old: &Settings, new: &Settings) -> Result<String, CommandError> {
        let fixed = old.differs_for_good(new);
        if !fixed.is_empty() {
            return Err(CommandError::Fixed(fixed.join(", ")));
        }
        let state = self.lock();
        let is_in =
            |all: &[NamespaceSetting], id: &str| all.iter().any(|namespace| namespace.id == id);
        let changed = new.namespaces.iter().filter(|namespace| !old.namespaces.contains(namespace));
        let put = changed
            .map(|namespace| self.spec_of(&state, namespace))
            .collect::<Result<Vec<_>, _>>()?;
        let gone = old.namespaces.iter().filter(|namespace| !is_in(&new.namespaces, &namespace.id));
        let remove: Vec<String> = gone.map(|namespace| namespace.id.clone()).collect();
        let said = told(&put, &remove, |id| is_in(&old.namespaces, id));
        self.host.change_namespaces(NamespaceChanges { put, remove })??;
        self.changed();
        Ok(said)
    }

    fn spec_of(
        &self,
        state: &State,
        namespace: &NamespaceSetting,
    ) -> Result<NamespaceSpec, CommandError> {
        self.namespace_spec(state, &AppNamespace::from(namespace))
    }
}

fn told(put: &[NamespaceSpec], remove: &[String], was_there: impl Fn(&str) -> bool) -> String {
    let (changed, added): (Vec<&str>, Vec<&str>) =
        put.iter().map(|spec| spec.id.as_str()).partition(|id| was_there(id));
    let gone = remove.iter().map(String::as_str).collect();
    let all = [("added", added), ("changed", changed), ("taken away", gone)];
    let all: Vec<String> = all
        .iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(what, ids)| format!("{what}: {}", ids.join(", ")))
        .collect();
    match all.is_empty() {
        true => "no namespace changed".into(),
        false => format!("namespaces {}", all.join("; ")),
    }
}
