//! What a server knew of keys when it ended: persistent parameters about them, as it heard them
//! last. It obeys them from its start on, until it hears others, so it does not take a revoked key
//! meanwhile, nor refuse one of a site.

use crate::host::secret_file;
use env::Env;
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Names and values.
pub type Params = Vec<(String, String)>;

/// The file, and what is in it or will be.
pub struct Known {
    path: PathBuf,
    newest: Mutex<Params>,
    /// Held while the file is written.
    file: Mutex<()>,
}

impl Known {
    /// In this file.
    pub fn at(path: PathBuf) -> Arc<Known> {
        Arc::new(Known { path, newest: Mutex::default(), file: Mutex::default() })
    }

    /// What the process before knew; nothing if that cannot be read, which the log says.
    pub fn read(&self) -> Params {
        let read = secret_file::read(&self.path).and_then(|text| {
            serde_json::from_str::<Params>(&text)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        });
        match read {
            Ok(params) => {
                self.newest.lock().clone_from(&params);
                params
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Params::new(),
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "what was known of keys is not known until the MGS tells it");
                Params::new()
            }
        }
    }

    /// Keeps what is heard now, beside the reactors. Nothing changes nothing: a file system that
    /// was just made has its parameters a moment later.
    pub fn keep(self: &Arc<Self>, env: &Env, heard: Params) {
        if heard.is_empty() || *self.newest.lock() == heard {
            return;
        }
        *self.newest.lock() = heard;
        let known = self.clone();
        let write = move || {
            if let Err(error) = known.write() {
                tracing::warn!(%error, file = %known.path.display(), "after a restart this will not be known at once: keys that were revoked, and authorities of sites");
            }
        };
        env.tasks.spawn_blocking("keep what is known of keys", Box::new(write));
    }

    /// Writes the newest, whichever was asked for.
    fn write(&self) -> io::Result<()> {
        let _one_at_a_time = self.file.lock();
        let text = serde_json::to_string_pretty(&*self.newest.lock()).map_err(io::Error::other)?;
        secret_file::write(&self.path, &(text + "\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_is_known_again_and_damage_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        let known = Known::at(path.clone());
        assert_eq!(known.read(), []);
        let params = vec![("auth.sites".to_owned(), "none".to_owned())];
        known.newest.lock().clone_from(&params);
        known.write().unwrap();
        assert_eq!(Known::at(path.clone()).read(), params);
        secret_file::write(&path, "[[").unwrap();
        assert_eq!(Known::at(path).read(), []);
    }
}
