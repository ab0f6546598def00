//! The way through a mount: system calls.

use super::door::Door;
use crate::failure::BenchError;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;

/// Our folder in a mount.
pub struct Mounted(pub PathBuf);

impl Mounted {
    fn path(&self, dir: &str, name: &str) -> PathBuf {
        self.0.join(dir).join(name)
    }
}

impl Door for Mounted {
    fn mkdir(&mut self, dir: &str, name: &str) -> Result<(), BenchError> {
        let path = self.path(dir, name);
        fs::create_dir(&path).map_err(BenchError::at("make", &path))
    }

    fn rmdir(&mut self, dir: &str, name: &str) -> Result<(), BenchError> {
        let path = self.path(dir, name);
        fs::remove_dir(&path).map_err(BenchError::at("remove", &path))
    }

    fn create(&mut self, dir: &str, name: &str, data: &[u8]) -> Result<(), BenchError> {
        let path = self.path(dir, name);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(BenchError::at("make", &path))?;
        if data.is_empty() {
            Ok(())
        } else {
            file.write_all(data).map_err(BenchError::at("write", &path))
        }
    }

    fn stat(&mut self, dir: &str, name: &str, bytes: Option<u64>) -> Result<(), BenchError> {
        let path = self.path(dir, name);
        let found = fs::symlink_metadata(&path).map_err(BenchError::at("look at", &path))?.len();
        match bytes {
            Some(bytes) if found != bytes => Err(BenchError::Failed(format!(
                "{} has {found} bytes, not {bytes}",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    fn read(&mut self, dir: &str, name: &str, buffer: &mut [u8]) -> Result<(), BenchError> {
        let path = self.path(dir, name);
        let mut file = File::open(&path).map_err(BenchError::at("open", &path))?;
        if buffer.is_empty() {
            Ok(())
        } else {
            file.read_exact(buffer).map_err(BenchError::at("read", &path))
        }
    }

    fn unlink(&mut self, dir: &str, name: &str) -> Result<(), BenchError> {
        let path = self.path(dir, name);
        fs::remove_file(&path).map_err(BenchError::at("remove", &path))
    }
}
