//! The sockets at which programs are let in: the host's own, and one for each namespace.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use clearway_shm::activation::Given;
use clearway_shm::{paths, socket};
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::unistd::geteuid;

use super::state::{AttachSocket, KIND_ATTACH_SOCKET, KIND_SHIFT, Supervisor};
use crate::error::HostError;
use crate::namespaces::{NamespaceChanges, NamespaceError, NamespaceSpec};

impl Supervisor {
    pub(super) fn open_main_attach_socket(&mut self) -> Result<(), HostError> {
        let path = self.setup.socket.clone();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => HostError::Running(path.clone()),
            _ => HostError::Socket(path.clone(), error),
        };
        make_folder(&path).map_err(failed)?;
        match self.setup.given.take() {
            Some(given) => self.take_over(&given, path.clone()).map_err(failed)?,
            None => {
                socket::refuse_other_files(&path).map_err(failed)?;
                self.open_attach_socket(path.clone(), None).map_err(failed)?;
            }
        }
        match self.open_way_back() {
            Some(fd) => self
                .add_attach_socket(AttachSocket {
                    fd,
                    path: path.clone(),
                    namespace: None,
                    is_way_back: true,
                    is_given: false,
                })
                .map_err(failed),
            None => Ok(()),
        }
    }

    fn open_attach_socket(&mut self, path: PathBuf, namespace: Option<String>) -> io::Result<()> {
        let fd = socket::listen(&path, self.setup.socket_mode, self.setup.socket_group)?;
        self.add_attach_socket(AttachSocket {
            fd,
            path,
            namespace,
            is_way_back: false,
            is_given: false,
        })
    }

    /// The service manager listened there until now.
    fn take_over(&mut self, given: &Given, path: PathBuf) -> io::Result<()> {
        given.take_over(self.setup.socket_mode, self.setup.socket_group)?;
        self.add_attach_socket(AttachSocket {
            fd: given.fd.try_clone()?,
            path,
            namespace: None,
            is_way_back: false,
            is_given: true,
        })
    }

    fn add_attach_socket(&mut self, attach_socket: AttachSocket) -> io::Result<()> {
        let index = self
            .attach_sockets
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.attach_sockets.len());
        if self.is_open && !self.is_shut {
            self.watch_attach_socket(index, &attach_socket)?;
        }
        if index == self.attach_sockets.len() {
            self.attach_sockets.push(None);
        }
        self.attach_sockets[index] = Some(attach_socket);
        Ok(())
    }

    fn watch_attach_socket(&self, index: usize, attach_socket: &AttachSocket) -> io::Result<()> {
        let word = index as u64 | KIND_ATTACH_SOCKET << KIND_SHIFT;
        Ok(self.epoll.add(attach_socket.fd.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, word))?)
    }

    /// Lets in who waits at the attach sockets, and who comes from now on.
    pub(crate) fn open_attach_sockets(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.watch_attach_sockets();
        }
    }

    /// The system gives nothing to accept anybody with. Who knocks waits, and the supervisor does
    /// not run round in the meantime.
    pub(super) fn shut_attach_sockets(&mut self) {
        for attach_socket in self.attach_sockets.iter().flatten() {
            // One that is not watched is as wanted.
            let _ = self.epoll.delete(attach_socket.fd.as_fd());
        }
        self.is_shut = true;
    }

    /// Looks whether somebody can be accepted again.
    pub(super) fn open_after_pause(&mut self) {
        if std::mem::take(&mut self.is_shut) && self.is_open {
            self.watch_attach_sockets();
        }
    }

    fn watch_attach_sockets(&mut self) {
        for index in 0..self.attach_sockets.len() {
            let watched = self.attach_sockets[index]
                .as_ref()
                .map_or(Ok(()), |attach_socket| self.watch_attach_socket(index, attach_socket));
            if let Err(error) = watched {
                // Nobody would ever be let in there, so whoever waits is told by the closed attach
                // socket.
                tracing::error!(%error, "an attach socket cannot be watched");
                self.attach_sockets[index] = None;
            }
        }
    }

    /// Adds a namespace, and its attach socket.
    pub(crate) fn add_namespace(&mut self, spec: NamespaceSpec) -> Result<u32, NamespaceError> {
        let namespaces = std::sync::Arc::clone(&self.namespaces);
        let mut namespaces = namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let id = spec.id.clone();
        let number = namespaces.add(spec)?;
        if self.setup.is_private {
            return Ok(number);
        }
        let path = paths::namespace_attach_socket(&self.setup.socket, &id);
        let made = make_folder(&path);
        if let (Ok(true), Some(folder)) = (&made, path.parent()) {
            self.own_folder = Some(folder.to_owned());
        }
        if let Err(error) =
            made.and_then(|_| self.open_attach_socket(path.clone(), Some(id.clone())))
        {
            // What was added a moment ago is there to be taken away.
            let _ = namespaces.remove(&id);
            return Err(NamespaceError::AttachSocket(path, error.to_string()));
        }
        Ok(number)
    }

    /// Changes several namespaces, all of them or none.
    pub(crate) fn change_namespaces(
        &mut self,
        changes: NamespaceChanges,
    ) -> Result<(), NamespaceError> {
        let namespaces = std::sync::Arc::clone(&self.namespaces);
        let locked = || namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        changes.put.iter().try_for_each(crate::namespaces::check)?;
        let is_there = |spec: &NamespaceSpec| locked().find(&spec.id).is_some();
        let (known, new): (Vec<_>, Vec<_>) = changes.put.into_iter().partition(is_there);
        let mut added: Vec<String> = Vec::new();
        for spec in new {
            let id = spec.id.clone();
            if let Err(error) = self.add_namespace(spec) {
                for id in &added {
                    // What was added a moment ago is there to be taken away.
                    let _ = self.remove_namespace(id);
                }
                return Err(error);
            }
            added.push(id);
        }
        known.into_iter().for_each(|spec| locked().replace(spec));
        for id in &changes.remove {
            // A command may have taken it away already.
            let _ = self.remove_namespace(id);
        }
        self.setup.program = changes.program.unwrap_or(self.setup.program);
        Ok(())
    }

    /// Takes a namespace away, and its attach socket. Programs that are in it stay.
    pub(crate) fn remove_namespace(&mut self, id: &str) -> Result<(), NamespaceError> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).remove(id)?;
        for attach_socket in &mut self.attach_sockets {
            // Closing it takes it out of the epoll set.
            attach_socket.take_if(|attach_socket| attach_socket.namespace.as_deref() == Some(id));
        }
        Ok(())
    }
}

/// Makes the folder that the socket will lie in, for our user alone. One that is there must be ours
/// or the system's: somebody else's could be taken away under us, or lead elsewhere. True: it was
/// not there.
fn make_folder(socket: &Path) -> io::Result<bool> {
    let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(false);
    };
    let is_new = !folder.exists();
    if is_new {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    let is = fs::metadata(folder)?;
    let ours = is.uid() == geteuid().as_raw() || is.uid() == 0;
    if !is.is_dir() || !ours {
        let sentence = format!("{} is not a folder of this user", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence));
    }
    Ok(is_new)
}
