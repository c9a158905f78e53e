//! Whom programs ask for names: the servers that settings name, or DHCP servers and routers.

use clearway_proto::Table;
use clearway_shm::attach_socket::{Dns, MAX_DNS_SERVERS};

use crate::teller::Teller;

#[cfg(test)]
mod tests;

/// What one of them says for an interface.
#[derive(Debug)]
struct Said {
    interface: String,
    table: Table,
    who: Teller,
    dns: Dns,
}

/// All that is said.
#[derive(Debug, Default)]
pub(crate) struct NameServers {
    /// What the settings say, for all namespaces.
    settings: Dns,
    /// In the order in which the first word of each came.
    said: Vec<Said>,
}

impl NameServers {
    /// The settings say whom programs of all namespaces ask.
    pub(crate) fn set(&mut self, dns: Dns) {
        self.settings = dns.fitted();
    }

    /// Somebody says it for an interface; without servers and domains he says nothing any more.
    /// True: that is something new.
    pub(crate) fn say(&mut self, interface: &str, table: Table, who: Teller, dns: Dns) -> bool {
        let dns = dns.fitted();
        let is_none = dns == Dns::default();
        let at = self.said.iter().position(|said| said.interface == interface && said.who == who);
        match at.and_then(|at| self.said.get_mut(at)) {
            None if is_none => return false,
            None => self.said.push(Said { interface: interface.to_owned(), table, who, dns }),
            Some(said) if !is_none => {
                let is_new = said.dns != dns || said.table != table;
                (said.dns, said.table) = (dns, table);
                return is_new;
            }
            Some(_) => self.said.retain(|said| said.interface != interface || said.who != who),
        }
        true
    }

    /// Whom a program asks: what the settings say goes before what is said for its namespace's
    /// interface, and that before what is said for another one in its table.
    pub(crate) fn of(&self, interface: Option<&str>, table: Table) -> Dns {
        let has_any = |name: &str| {
            self.said.iter().any(|said| said.interface == name && !said.dns.servers.is_empty())
        };
        let own = interface.filter(|name| has_any(name));
        let in_table = || {
            let mut others = self.said.iter().filter(|said| said.table == table);
            others.find(|said| has_any(&said.interface)).map(|said| said.interface.as_str())
        };
        let learned = own.or_else(in_table).map(|name| self.together(name)).unwrap_or_default();
        let mut dns = self.settings.clone();
        if dns.servers.is_empty() {
            dns.servers = learned.servers;
            if dns.search.is_empty() {
                dns.search = learned.search;
            }
        }
        // Domains to look in are of no use where nobody is asked.
        if dns.servers.is_empty() { Dns::default() } else { dns }
    }

    /// RFC 8106 5.3.1: of several who say something DHCP's servers are asked first, and some of
    /// each are known.
    fn together(&self, interface: &str) -> Dns {
        let mut all: Vec<&Said> =
            self.said.iter().filter(|said| said.interface == interface).collect();
        all.sort_by_key(|said| said.who);
        let mut dns = Dns::default();
        for (at, said) in all.iter().enumerate() {
            let others = all.iter().skip(at + 1).filter(|other| !other.dns.servers.is_empty());
            let room = MAX_DNS_SERVERS.saturating_sub(dns.servers.len() + others.count());
            dns.servers.extend(said.dns.servers.iter().take(room).cloned());
            dns.search.extend(said.dns.search.iter().cloned());
        }
        dns.fitted()
    }
}
