//! Bytes of small files that live on their MDT (docs/dom.md): one request reads them with the size,
//! one stores them and reports what `Wrote` would: as they are written ([`store_on_mdt`]), or
//! later, out of the cache and paid from a grant ([`crate::writeback::sending`]).

use crate::file::File;
use crate::path::DataPath;
use crate::writeback::flags::WriteFlags;
use bytes::Bytes;
use rpc::error::RpcError;
use session::error::ClientError;
use session::targets::{misfit, two};
use stubs::mdc::Mdc;
use types::attr::{Attr, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{MdsOp, MdsReply, Write};

/// By the present layout some of these bytes live elsewhere: an exchange of layouts came in
/// between.
const ELSEWHERE: Errno = Errno(libc::EREMCHG);

/// True if the layout must be asked for again.
pub(crate) fn is_elsewhere(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(RpcError::Errno(errno)) if *errno == ELSEWHERE)
}

impl DataPath {
    /// Reads `[offset, end)` of a file whose bytes at `offset` live on the MDT, if the range or the
    /// file ends there; then no size need be known. 1 round trip. `None`: by the known layout it
    /// must be read as any other file.
    pub(crate) async fn read_small(
        &self,
        credentials: &Credentials,
        file: &File,
        offset: u64,
        end: u64,
    ) -> Result<Option<Vec<Bytes>>, ClientError> {
        let on_mdt = file.layout().map_or(0, |layout| layout.mdt_bytes());
        if offset >= on_mdt || end > on_mdt && file.size().is_none_or(|size| size > on_mdt) {
            return Ok(None);
        }
        let last = end.min(on_mdt);
        let read = self
            .session
            .mdc(file.fid)?
            .read(credentials, file.fid, offset, (last - offset) as u32)
            .await;
        match read.map_err(ClientError::from) {
            Ok((entry, data)) => {
                file.learn(&entry.attr);
                // It grew beyond the part that lives here.
                let whole = end <= on_mdt || entry.attr.size <= on_mdt;
                Ok(whole.then(|| if data.is_empty() { Vec::new() } else { vec![data] }))
            }
            Err(error) if is_elsewhere(&error) => {
                file.forget_layout();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Stores bytes that live on the MDT, which knows size, space and times with them. 1 round trip,
/// also if they must be durable.
pub(crate) async fn store_on_mdt(
    mdc: Mdc,
    fid: Fid,
    offset: u64,
    data: Bytes,
    flags: WriteFlags,
) -> Result<Attr, ClientError> {
    let root = Credentials::root();
    // An append has changed the file already.
    let kill_suidgid = flags.kill_suidgid && !flags.append;
    let write =
        MdsOp::Write(Write { fid, offset, data, at: WrittenAt::Now, kill_suidgid, keeps: true });
    if flags.sync {
        return match two(&mdc, &root, write, MdsOp::Sync).await? {
            (MdsReply::Entry(entry), Ok(MdsReply::Done)) => Ok(entry.attr),
            (_, Err(error)) => Err(error),
            other => Err(misfit(mdc.import(), &other)),
        };
    }
    match mdc.ask(&root, vec![write]).await?.pop() {
        Some(Ok(MdsReply::Entry(entry))) => Ok(entry.attr),
        Some(Err(errno)) => Err(errno.into()),
        other => Err(misfit(mdc.import(), &other)),
    }
}
