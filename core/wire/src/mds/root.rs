//! The directory that a client mounts.

use crate::class::Class;
use crate::codec::cursor::{Bulk, Reader, Writer};
use crate::codec::error::DecodeError;
use crate::codec::operation::{Operation, fid, plain, put_fid};
#[cfg(test)]
use crate::codec::testing::*;
use types::dir_path::{DIR_PATH_BYTES_MAX, DirPath};
use types::fid::Fid;
use zerocopy::little_endian::U32;

/// Which directory is the root of a mount? It is at the end of the fileset of the client's nodemap,
/// if that has one, and then of `path`. Answers `Root`: that directory, or the one at which
/// another MDT goes on.
#[derive(Clone, PartialEq, Debug)]
pub struct Root {
    /// What is mounted, below the fileset.
    pub path: DirPath,
    /// The directory from which to go on; NONE: from the start.
    pub from: Fid,
    /// Names on the way to it, those of the fileset among them.
    pub walked: u32,
    /// Names of the fileset, as the MDT before answered.
    pub fileset: u32,
}

impl Operation for Root {
    fn class(&self, row: Class) -> Class {
        // The root of the file system itself is every client's.
        Class { for_caller: row.for_caller && !self.path.is_root(), ..row }
    }

    fn fid(&self) -> Fid {
        self.from
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.from, w);
        w.put(&[U32::new(self.walked), U32::new(self.fileset)]);
        w.bytes(&self.path.to_bytes());
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Root, DecodeError> {
        plain(flags)?;
        let from = fid(r)?;
        let [walked, fileset] = r.get::<[U32; 2]>()?.map(U32::get);
        let bytes = r.bytes("bytes of path", DIR_PATH_BYTES_MAX)?;
        match DirPath::parse(bytes) {
            Ok(path) if path.to_bytes() == bytes => Ok(Root { path, from, walked, fileset }),
            _ => Err(DecodeError::Text { field: "path of a directory" }),
        }
    }

    #[cfg(test)]
    fn sample() -> Root {
        Root { path: "/home/caf\u{e9}".parse().expect("a path"), from: DIR, walked: 3, fileset: 2 }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Root> {
        let path = proptest::collection::vec("[a-z]{1,9}", 0..5)
            .prop_map(|names| names.join("/").parse().expect("a path"));
        (path, any_fid(), any::<u32>(), any::<u32>())
            .prop_map(|(path, from, walked, fileset)| Root { path, from, walked, fileset })
            .boxed()
    }
}
