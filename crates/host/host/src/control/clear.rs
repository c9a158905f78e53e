//! Commands that set counters to zero, or end a session.

use clearway_command::Clear;

use super::plane::{Control, State};
use crate::outcome::{CommandError, Output};
use crate::show;

impl Control {
    pub(super) fn clear(&self, state: &mut State, what: &Clear) -> Result<Output, CommandError> {
        match what {
            Clear::Tcp => state.baselines.clear_tcp(&self.host)?,
            Clear::Errors => {
                state.baselines.clear_errors(&self.host)?;
                state.packets.clear_denied();
            }
            Clear::Acl => state.packets.clear_rules(),
            Clear::Interfaces { interface } => {
                let wanted = interface.as_deref().map(|name| self.iface(name)).transpose()?;
                let counters = show::counters(&self.host)?;
                let cleared = counters
                    .into_iter()
                    .filter(|(iface, _)| wanted.is_none_or(|wanted| wanted == *iface));
                for (iface, counters) in cleared {
                    state.baselines.set_interface(iface, counters);
                }
            }
        }
        Ok(Output::done())
    }
}
