//! Source of records and objects.

use crate::error::FsckError;
use crate::offline::Offline;
use crate::online::Online;
use crate::page::Page;
use crate::report::VolumeFinding;
use check::judge::Mend;
use stubs::osc::Listed;
use types::object::ObjectId;
use types::target::TargetIndex;

/// A file system to be checked.
pub enum Source {
    /// Targets at rest.
    Offline(Offline),
    /// A cluster at work.
    Online(Online),
}

impl Source {
    /// Description of the source, for people.
    pub fn describe(&self) -> String {
        match self {
            Source::Offline(offline) => offline.describe(),
            Source::Online(online) => online.describe(),
        }
    }

    /// True if the file system is in use meanwhile.
    pub fn is_online(&self) -> bool {
        matches!(self, Source::Online(_))
    }

    /// Indices of the metadata targets.
    pub fn mdts(&self) -> Vec<u16> {
        match self {
            Source::Offline(offline) => offline.mdts(),
            Source::Online(online) => online.mdts(),
        }
    }

    /// Indices of the object targets.
    pub fn osts(&self) -> Vec<TargetIndex> {
        match self {
            Source::Offline(offline) => offline.osts(),
            Source::Online(online) => online.osts(),
        }
    }

    /// Records with keys in `[start, end)`.
    ///
    /// # Errors
    /// The target does not answer, or its store cannot be read.
    pub async fn scan(&self, mdt: u16, start: &[u8], end: &[u8]) -> Result<Page, FsckError> {
        match self {
            Source::Offline(offline) => offline.scan(mdt, start, end),
            Source::Online(online) => online.scan(mdt, start, end).await,
        }
    }

    /// Objects after `after` with sizes in bytes and 512-byte blocks, and whether there are more.
    ///
    /// # Errors
    /// As [`Source::scan`].
    pub async fn objects(
        &self,
        ost: TargetIndex,
        after: Option<ObjectId>,
    ) -> Result<Listed, FsckError> {
        match self {
            Source::Offline(offline) => offline.objects(ost, after),
            Source::Online(online) => online.objects(ost, after).await,
        }
    }

    /// What is wrong with the records of volumes, which are looked at where they are at rest.
    ///
    /// # Errors
    /// As [`Source::scan`].
    pub fn volumes(&self, repair: bool) -> Result<Vec<VolumeFinding>, FsckError> {
        match self {
            Source::Offline(offline) => offline.volumes(repair),
            Source::Online(_) => Ok(Vec::new()),
        }
    }

    /// True if the object has any bytes or space now.
    ///
    /// # Errors
    /// As [`Source::scan`].
    pub async fn has_object(&self, ost: TargetIndex, object: ObjectId) -> Result<bool, FsckError> {
        match self {
            Source::Offline(offline) => offline.has_object(ost, object),
            Source::Online(online) => online.has_object(ost, object).await,
        }
    }

    /// Makes a repair; `false`: what it expects is not so any more, and nothing was changed.
    ///
    /// # Errors
    /// As [`Source::scan`], or the store cannot be written.
    pub async fn mend(&self, mdt: u16, mend: &Mend) -> Result<bool, FsckError> {
        match self {
            Source::Offline(offline) => offline.mend(mdt, mend),
            Source::Online(online) => online.mend(mdt, mend).await,
        }
    }

    /// Removes an object, durably.
    ///
    /// # Errors
    /// As [`Source::mend`].
    pub async fn destroy(&self, ost: TargetIndex, object: ObjectId) -> Result<(), FsckError> {
        match self {
            Source::Offline(offline) => offline.destroy(ost, object),
            Source::Online(online) => online.destroy(ost, object).await,
        }
    }

    /// Makes repairs durable and lets go.
    ///
    /// # Errors
    /// A repair is not durable.
    pub async fn close(self, repaired: bool) -> Result<(), FsckError> {
        match self {
            Source::Offline(offline) => offline.close(repaired).await,
            Source::Online(online) => online.close(repaired).await,
        }
    }
}
