//! The orders for one rank in one step.

use super::door::Door;
use super::mount::Mounted;
use super::native::{Native, NativeDoor};
use crate::failure::BenchError;
use crate::stop::Stop;
use bench_args::FILE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Operations of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Make and write files.
    Create,
    /// Attributes of files.
    Stat,
    /// Open and read files.
    Read,
    /// Remove files.
    Remove,
    /// Make folders.
    Mkdir,
    /// Attributes of folders.
    StatDir,
    /// Remove folders.
    Rmdir,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The operation.
    pub op: Op,
    /// Folder, relative to the benchmark's.
    pub dir: String,
    /// Names are this and a number.
    pub prefix: String,
    /// Number of operations.
    pub count: usize,
    /// Size of each file, bytes.
    pub bytes: usize,
}

impl Order {
    /// Carries the order out.
    ///
    /// # Errors
    /// The first operation that fails, or the user ended the run.
    pub fn perform(&self, door: &mut dyn Door, stop: &Stop) -> Result<(), BenchError> {
        let mut data: Vec<u8> = match self.op {
            Op::Create | Op::Read => {
                (0..self.bytes.min(FILE_BYTES_MAX)).map(|at| (at % 251) as u8).collect()
            }
            _ => Vec::new(),
        };
        for number in 0..self.count {
            stop.check()?;
            let name = format!("{}{number}", self.prefix);
            match self.op {
                Op::Create => door.create(&self.dir, &name, &data)?,
                Op::Stat => door.stat(&self.dir, &name, Some(self.bytes as u64))?,
                Op::Read => door.read(&self.dir, &name, &mut data)?,
                Op::Remove => door.unlink(&self.dir, &name)?,
                Op::Mkdir => door.mkdir(&self.dir, &name)?,
                Op::StatDir => door.stat(&self.dir, &name, None)?,
                Op::Rmdir => door.rmdir(&self.dir, &name)?,
            }
        }
        Ok(())
    }
}

/// The way by which a rank reaches the file system.
#[derive(Clone)]
pub enum Post {
    /// At the benchmark's folder of a mount.
    Mount(PathBuf),
    /// At the native client.
    Native(Arc<Native>),
}

impl Post {
    /// A door for one rank.
    ///
    /// # Errors
    /// No thread or folder can be made.
    pub fn door(&self) -> Result<Box<dyn Door>, BenchError> {
        Ok(match self {
            Post::Mount(dir) => Box::new(Mounted(dir.clone())),
            Post::Native(native) => Box::new(NativeDoor::new(native.clone())?),
        })
    }
}
