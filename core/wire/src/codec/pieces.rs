//! A reply that becomes bytes piece by piece: that of a large listing takes milliseconds, in which
//! its server answers others between the pieces.

use super::cursor::{BegunOp, Encoded, Writer, bits, len32};
use super::mds_reply::{put_attributes, put_dir_entry};
use super::{put_result, reply_head, reply_tail};
use crate::mds::reply::MdsReply;
use crate::mds::shared::{DirEntry, Entry};
use crate::message::{OpReply, Reply};
use crate::opcode::answer;
use std::vec::IntoIter;
use types::errno::Errno;

/// Entries of a piece: 0.3 ms of CPU in a release build, as measured on 2026-12-01.
pub const PIECE_ENTRIES: usize = 1024;
/// Bytes of an entry with attributes and a name of medium length, about.
const ENTRY_BYTES: usize = 180;

/// See the module. Its bytes are those of [`encode_reply`](super::encode_reply).
pub struct ReplyPieces {
    /// Without its results.
    reply: Reply,
    results: IntoIter<Result<OpReply, Errno>>,
    /// What of the present result is still to come.
    rest: Option<(BegunOp, Rest)>,
    writer: Writer,
}

enum Rest {
    Entries(IntoIter<DirEntry>),
    Attrs(IntoIter<Option<Entry>>),
}

impl ReplyPieces {
    /// Of a reply.
    pub fn of(mut reply: Reply) -> ReplyPieces {
        let writer = reply_head(&reply);
        let results = std::mem::take(&mut reply.results).into_iter();
        ReplyPieces { reply, results, rest: None, writer }
    }

    /// Makes the next piece. False: there is no other one.
    pub fn next_piece(&mut self) -> bool {
        let mut room = PIECE_ENTRIES;
        while room > 0 {
            match self.rest.take() {
                Some((begun, mut rest)) => {
                    room -= rest.put(room, &mut self.writer);
                    match rest.is_empty() {
                        true => self.writer.end_op(begun),
                        false => self.rest = Some((begun, rest)),
                    }
                }
                None => match self.results.next() {
                    Some(result) => self.begin(result),
                    None => return false,
                },
            }
        }
        self.rest.is_some() || self.results.len() > 0
    }

    fn begin(&mut self, result: Result<OpReply, Errno>) {
        let w = &mut self.writer;
        let (begun, rest, count) = match result {
            Ok(OpReply::Mds(MdsReply::Entries { entries, more })) => {
                let count = entries.len();
                let begun = w.begin_op(answer::MDS_ENTRIES, bits([more]));
                (begun, Rest::Entries(entries.into_iter()), count)
            }
            Ok(OpReply::Mds(MdsReply::Attrs(entries))) => {
                let count = entries.len();
                (w.begin_op(answer::MDS_ATTRS, 0), Rest::Attrs(entries.into_iter()), count)
            }
            result => return put_result(&result, w),
        };
        w.put(&len32(count));
        w.reserve(count * ENTRY_BYTES);
        self.rest = Some((begun, rest));
    }

    /// All of it, once there is no other piece.
    ///
    /// # Panics
    /// There is one: our own bug.
    pub fn finish(self) -> Encoded {
        assert!(self.rest.is_none() && self.results.len() == 0, "a reply has another piece");
        reply_tail(&self.reply, self.writer)
    }
}

impl Rest {
    /// Up to so many entries; how many.
    fn put(&mut self, most: usize, w: &mut Writer) -> usize {
        let before = self.len();
        match self {
            Rest::Entries(entries) => {
                entries.take(most).for_each(|entry| put_dir_entry(&entry, w));
            }
            Rest::Attrs(entries) => {
                entries.take(most).for_each(|entry| put_attributes(entry.as_ref(), w));
            }
        }
        before - self.len()
    }

    fn len(&self) -> usize {
        match self {
            Rest::Entries(entries) => entries.len(),
            Rest::Attrs(entries) => entries.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
