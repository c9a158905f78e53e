//! What lets programs of an earlier start in again: tokens, and the key that they are made with.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use clearway_base::sip::sip_2_4_bytes;
use clearway_shm::attach_socket::Token;
use clearway_shm::paths;
use nix::unistd::geteuid;

use crate::namespaces::{Namespace, same_bytes};
use crate::random::random;

/// What tokens are made with, the same in every start of the host that finds its file.
pub(super) struct Key([u8; 16]);

impl Key {
    /// The key that lies beside the attach socket, or a new one that is put there. Where it cannot
    /// be read or written, programs of earlier starts are strangers.
    pub(super) fn beside(attach_socket: &Path) -> io::Result<Key> {
        let path = paths::key(attach_socket);
        let mut key = [0; 16];
        match fs::File::open(&path) {
            Ok(mut file) => {
                let is = file.metadata()?;
                let ours = is.uid() == geteuid().as_raw() && is.mode() & 0o077 == 0;
                if ours && is.len() == key.len() as u64 {
                    file.read_exact(&mut key)?;
                    return Ok(Key(key));
                }
                fs::remove_file(&path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        random(&mut key)?;
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?
            .write_all(&key)?;
        Ok(Key(key))
    }

    /// One that no other start knows.
    pub(super) fn for_this_start() -> io::Result<Key> {
        let mut key = [0; 16];
        random(&mut key)?;
        Ok(Key(key))
    }

    /// A new token for a program of the namespace.
    pub(super) fn token(&self, namespace: &Namespace) -> io::Result<Token> {
        let mut bytes = [0; 16];
        random(&mut bytes[..8])?;
        let seal = self.seal(&bytes[..8], namespace);
        bytes[8..].copy_from_slice(&seal);
        Ok(Token(bytes))
    }

    /// Whether this start or an earlier one made it, for the namespace as it is now: of this name
    /// and with this secret.
    pub(super) fn made(&self, token: &Token, namespace: &Namespace) -> bool {
        same_bytes(&token.0[8..], &self.seal(&token.0[..8], namespace))
    }

    fn seal(&self, number: &[u8], namespace: &Namespace) -> [u8; 8] {
        // With their lengths in front, so that no two namespaces are written alike.
        let len =
            |part: Option<&str>| part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes();
        let (id, secret) = (
            namespace.spec.id.as_str(),
            namespace.spec.secret.as_ref().map(|secret| secret.0.as_str()),
        );
        let (id_len, secret_len) = (len(Some(id)), len(secret));
        let parts: [&[u8]; 5] =
            [number, &id_len, id.as_bytes(), &secret_len, secret.unwrap_or_default().as_bytes()];
        sip_2_4_bytes(&self.0, parts).to_le_bytes()
    }
}
