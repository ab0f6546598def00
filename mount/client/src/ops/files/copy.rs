//! copy_file_range(2): through this client, a chunk at a time.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::FileHandle;
use data::parts::join;
use data::read_ahead::Reader;
use data::writeback::flags::WriteFlags;
use session::error::ClientError;
use std::sync::Arc;
use types::errno::Errno;

/// Bytes of one chunk: read, then written.
const CHUNK_BYTES: u64 = 4 << 20;
/// Bytes of one call. Programs go on after a short copy, and can be interrupted in between.
const CALL_BYTES_MAX: u64 = 64 << 20;

impl Client {
    /// Copies up to `len` bytes between two open files; returns how many (64 MiB at most), 0 at the
    /// end of the source.
    pub async fn copy_file_range(
        self: Arc<Self>,
        caller: Caller,
        (source, source_offset): (FileHandle, u64),
        (target, target_offset): (FileHandle, u64),
        len: u64,
    ) -> Result<u64, ClientError> {
        let _timed = self.timed(Operation::CopyFileRange);
        let reader = Reader { handle: source, from_page_cache: false };
        let (source, target) = (self.files_open.get(source)?, self.files_open.get(target)?);
        source.check()?;
        target.check()?;
        if !source.mode.flags.read || !target.mode.flags.write {
            return Err(Errno::EBADF.into());
        }
        let len = len.min(CALL_BYTES_MAX);
        let mut done = 0;
        while done < len {
            let chunk = (len - done).min(CHUNK_BYTES) as u32;
            let copied = async {
                let data = self
                    .data
                    .read_file(
                        &caller.credentials,
                        &source.file,
                        (source_offset + done, chunk),
                        reader,
                    )
                    .await?;
                let data = join(data)?;
                let flags = WriteFlags {
                    kill_suidgid: caller.credentials.uid != 0,
                    ..WriteFlags::default()
                };
                let (who, file) = (caller.credentials.clone(), target.file.clone());
                self.data.write_file(who, file, target_offset + done, data, flags).await
            };
            match copied.await {
                Ok(written) if written.bytes == 0 => break,
                Ok(written) => {
                    done += u64::from(written.bytes);
                    if written.bytes < chunk {
                        break;
                    }
                }
                // The copied bytes are reported; the error comes with the next call.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}
