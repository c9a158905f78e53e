//! Commands about routing tables, routes and namespaces.

use clearway_command::{AppNamespace, NewSecret, RouteVia};
use clearway_proto::{NextHop, Table};
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::Secret;
use clearway_wire::Cidr;

use super::plane::{Control, State};
use crate::namespaces::NamespaceSpec;
use crate::outcome::{CommandError, Output, locked};

impl Control {
    pub(super) fn delete_table(
        &self,
        state: &mut State,
        number: u32,
    ) -> Result<Output, CommandError> {
        let table = state.tables.find(number)?;
        if let Some(user) = self.user_of(table)? {
            return Err(CommandError::TableInUse(number, user));
        }
        state.tables.remove(number);
        self.forget_local(state, table)?;
        Ok(Output::done())
    }

    /// Who keeps a table from being taken away.
    fn user_of(&self, table: Table) -> Result<Option<String>, CommandError> {
        let (ifaces, route) = self.host.ask(0, move |worker| {
            let stack = worker.stack();
            let ifaces: Vec<_> =
                stack.interfaces().filter(|i| i.table == table).map(|i| i.iface).collect();
            let leads = |via: NextHop| via == NextHop::Lookup(table);
            let route = stack.routes().find(|r| r.table == table || leads(r.via)).map(|r| r.dst);
            (ifaces, route)
        })?;
        let interfaces = self.host.interfaces();
        let name =
            |iface| crate::outcome::locked(&interfaces).by_iface(iface).map(|e| e.name.clone());
        let interface = ifaces.into_iter().find_map(name);
        let namespaces = self.host.namespaces();
        let namespace = crate::outcome::locked(&namespaces)
            .iter()
            .find(|n| n.spec.table == table)
            .map(|n| n.spec.id.clone());
        Ok(interface
            .map(|name| format!("the interface {name}"))
            .or(route.map(|dst| format!("the route to {dst}")))
            .or(namespace.map(|id| format!("the namespace {id}"))))
    }

    pub(super) fn add_route(
        &self,
        state: &State,
        prefix: Cidr,
        number: u32,
        via: Option<&RouteVia>,
    ) -> Result<Output, CommandError> {
        let table = state.tables.find(number)?;
        let via = match via {
            None => {
                return Err(CommandError::Missing(
                    "way for this route. Say `via` and where".into(),
                ));
            }
            Some(RouteVia::Gateway(addr, None)) if addr.is_link_local() => {
                let why = format!("router. {addr} is on every link: name the interface behind it");
                return Err(CommandError::Missing(why));
            }
            Some(RouteVia::Gateway(addr, None)) => NextHop::Gateway(*addr),
            Some(RouteVia::Gateway(addr, Some(name))) => {
                NextHop::GatewayOn { iface: self.iface(name)?, addr: *addr }
            }
            Some(RouteVia::Interface(name)) => NextHop::Interface(self.iface(name)?),
            Some(RouteVia::Lookup(number)) => NextHop::Lookup(state.tables.find(*number)?),
            Some(RouteVia::Drop) => NextHop::Blackhole,
            Some(RouteVia::Unreachable) => NextHop::Unreachable,
        };
        let done = self.host.ask_all(move |worker| worker.stack().add_route(table, prefix, via))?;
        let undo = move |worker: &mut Worker| {
            let _ = worker.stack().remove_route(table, prefix);
        };
        self.all_or_none(format!("route to {prefix} in table {number}"), done, undo)?;
        self.changed();
        Ok(Output::done())
    }

    pub(super) fn delete_route(
        &self,
        state: &State,
        prefix: Cidr,
        number: u32,
    ) -> Result<Output, CommandError> {
        let table = state.tables.find(number)?;
        let gone = self.host.ask_all(move |worker| worker.stack().remove_route(table, prefix))?;
        self.changed();
        if gone.contains(&true) {
            return Ok(Output::done());
        }
        Err(CommandError::Missing(format!("route to {prefix} in table {number}")))
    }

    pub(super) fn add_namespace(
        &self,
        state: &State,
        command: &AppNamespace,
    ) -> Result<Output, CommandError> {
        self.host.add_namespace(self.namespace_spec(state, command)?)??;
        self.changed();
        Ok(Output::done())
    }

    /// What a namespace is made of, when its interface and its table are there.
    pub(super) fn namespace_spec(
        &self,
        state: &State,
        command: &AppNamespace,
    ) -> Result<NamespaceSpec, CommandError> {
        let of_interface = match &command.interface {
            None => None,
            Some(name) => {
                let iface = self.iface(name)?;
                let find = move |worker: &mut Worker| {
                    worker.stack().interfaces().find(|i| i.iface == iface)
                };
                self.host.ask(0, find)?.map(|info| info.table)
            }
        };
        let table = match command.table {
            Some(number) => state.tables.find(number)?,
            None => of_interface.unwrap_or_default(),
        };
        Ok(NamespaceSpec {
            id: command.id.clone(),
            secret: command.secret.as_ref().map(|secret| Secret(String::clone(secret))),
            table,
            interface: command.interface.clone(),
            limits: command.limits,
        })
    }

    /// Programs that come from now on must know this secret.
    pub(super) fn set_secret(&self, new: &NewSecret) -> Result<Output, CommandError> {
        let secret = new.secret.as_ref().map(|secret| Secret(String::clone(secret)));
        let namespaces = self.host.namespaces();
        locked(&namespaces).set_secret(&new.id, secret)?;
        Ok(Output::done())
    }

    pub(super) fn delete_namespace(&self, id: &str) -> Result<Output, CommandError> {
        self.host.remove_namespace(id)??;
        self.changed();
        Ok(Output::done())
    }
}
