//! Answers of an object target.

use bytes::Bytes;
use types::attr::Statfs;
use types::object::{ObjectId, ObjectOffset};
use types::session::ClientUuid;

/// What an operation answered.
#[derive(Clone, PartialEq, Debug)]
pub enum OstReply {
    /// Done.
    Done,
    /// Bytes read.
    Data(Bytes),
    /// Stored, cut or allocated: by how many 512-byte blocks the object's allocation grew.
    Changed {
        /// Growth in blocks of 512 bytes; negative: it shrank.
        blocks_delta: i64,
    },
    /// Size in bytes, 512-byte blocks; zeros for an object that was never written.
    Attr {
        /// Bytes.
        size: u64,
        /// Blocks of 512 bytes.
        blocks: u64,
    },
    /// Position found.
    Offset(Option<ObjectOffset>),
    /// Totals.
    Statfs(Statfs),
    /// `more` bytes more are granted. `paid` bytes of `spend` had been granted; the rest had not
    /// (or the session is a new one).
    Granted {
        /// Bytes that are granted in addition.
        more: u64,
        /// Bytes that had been granted.
        paid: u64,
    },
    /// The clients for which the OST does nothing, because this MDT said so, and the boot number of
    /// the OST.
    Fenced {
        /// Boot number.
        boot: u64,
        /// The clients.
        clients: Vec<ClientUuid>,
    },
    /// Objects with their sizes in bytes and their 512-byte blocks; `more` if there are others
    /// behind.
    Objects {
        /// (object, bytes, blocks of 512 bytes).
        objects: Vec<(ObjectId, u64, u64)>,
        /// There are others behind.
        more: bool,
    },
}
