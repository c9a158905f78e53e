//! A program's place in a host, and the drivers of its runtimes.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_client::{AppConfig, AttachError, Client, ConfigError};
use tokio::runtime::{Handle, Id};

use crate::driver::Driver;

/// The way into one namespace of one host. Copies are the same way.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Shared>,
}

struct Shared {
    client: Arc<Client>,
    drivers: Mutex<Vec<(Id, Arc<Driver>)>>,
}

/// That of who names none.
static OF_PROCESS: Mutex<Option<Net>> = Mutex::new(None);

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("attached", &self.shared.client.is_attached()).finish()
    }
}

impl Net {
    /// Enters a host.
    ///
    /// # Errors
    /// Nobody listens, this user may not come in, the host refuses: [`AttachError`] says which.
    pub fn attach(config: AppConfig) -> Result<Net, AttachError> {
        Ok(Net::over(Client::attach(config)?))
    }

    /// Over a client that the program has.
    pub fn over(client: Arc<Client>) -> Net {
        Net { shared: Arc::new(Shared { client, drivers: Mutex::default() }) }
    }

    /// That of the process, as its environment says: the one that sockets are made in when none is
    /// named. The host is entered when this is first asked for.
    ///
    /// # Errors
    /// A variable or the file that it names cannot be followed (`EINVAL`'s kind, with what could
    /// stand there), or what [`Net::attach`] says, as the number that Linux has for it.
    pub fn of_process() -> io::Result<Net> {
        let mut of_process = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(net) = &*of_process {
            return Ok(net.clone());
        }
        let config = AppConfig::from_env().map_err(|error: ConfigError| {
            io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
        })?;
        let net = Net::attach(config).map_err(|error| error.errno())?;
        Ok(of_process.insert(net).clone())
    }

    /// The client below.
    pub fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }

    /// The driver of the runtime that this is called in.
    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        let here = Handle::current().id();
        let mut drivers = self.shared.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        drivers.retain(|(_, driver)| !driver.is_over());
        if let Some((_, driver)) = drivers.iter().find(|(id, _)| *id == here) {
            return Ok(driver.clone());
        }
        let driver = Arc::new(Driver::begin(&self.shared.client)?);
        drivers.push((here, driver.clone()));
        Ok(driver)
    }
}

/// A socket of the client library, and its session fd.
pub(crate) type Parts = (Arc<clearway_client::Socket>, OwnedFd);
