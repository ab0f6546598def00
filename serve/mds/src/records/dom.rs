//! Bytes of files that live on this MDT, as records (docs/dom.md). They are named as the objects of
//! the file are, so an exchange of layouts moves none of them.

use crate::records::Records;
use crate::records::part::Part;
use disk::redo::Source;
use disk::{chunk, key};
use namespace::dom::{Plan, sources};
use types::fid::Fid;

impl Records<'_> {
    /// Carries out a planned change of a file's bytes.
    pub(crate) fn put_chunks(&mut self, part: Part, plan: &Plan) {
        for (n, bytes) in &plan.chunks {
            let key = key::chunk(part.named, *n);
            if bytes.is_empty() {
                self.tx.delete(&key);
            } else {
                let record = &mut self.state.scratch;
                chunk::encode(bytes, record);
                self.tx.put(&key, record);
            }
        }
    }

    /// Carries out the planned change of a write. Its redo names the data, which the request
    /// brought: see [`Durability::data`](crate::locks::context::Durability).
    pub(crate) fn put_written(&mut self, part: Part, plan: &Plan, pieces: &[(u64, &[u8])]) {
        for (n, bytes) in &plan.chunks {
            let key = key::chunk(part.named, *n);
            let record = &mut self.state.scratch;
            chunk::encode(bytes, record);
            self.tx.put_as(&key, record, |log| {
                let source = |(at, from, len)| Source { at, from, len };
                let sources: Vec<_> = sources(pieces, *n).into_iter().map(source).collect();
                log.note_bytes(&key, &sources);
            });
        }
    }

    /// Puts bytes that another MDT had, named after this file.
    pub(crate) fn take_chunks(&mut self, named: Fid, chunks: &[(u32, Vec<u8>)]) {
        for (n, bytes) in chunks {
            let record = &mut self.state.scratch;
            chunk::encode(bytes, record);
            self.tx.put(&key::chunk(named, *n), record);
        }
    }

    /// Removes all bytes of a file, readable or not.
    pub(crate) fn delete_chunks(&mut self, part: Part) {
        if part.end == 0 {
            return;
        }
        self.delete_all(part.named, &key::chunk(part.named, 0), &key::chunks_end(part.named));
    }
}
