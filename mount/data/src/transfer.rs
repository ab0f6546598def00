//! Bytes of a file to and from its objects: ranges are split by the layout, and all parts travel at
//! once.

use crate::dom::{is_elsewhere, store_on_mdt};
use crate::file::File;
use crate::parts::{Where, is_instantiated, parts, push_zeros};
use crate::path::DataPath;
use crate::writeback::flags::WriteFlags;
use bytes::Bytes;
use env::BoxFuture;
use layout::layout::Layout;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use std::sync::Arc;
use types::attr::Attr;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::GetLayout;

/// Result of the parts of a write.
#[derive(Debug)]
pub struct Stored {
    /// Bytes from the start on that are stored without a gap.
    pub bytes: u64,
    /// Growth of all objects, 512-byte blocks.
    pub blocks_delta: i64,
    /// The error of the first part that failed, if not all is stored.
    pub error: Option<ClientError>,
    /// All of it lives on the MDT, which answered with these attributes and needs no `Wrote` any
    /// more.
    pub attr: Option<Attr>,
}

impl DataPath {
    /// Reads `[start, end)`; bytes that no object has are zeros.
    pub async fn fetch(
        &self,
        layout: &Layout,
        fid: Fid,
        start: u64,
        end: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        match self.fetch_by(layout, fid, start, end).await {
            Err(error) if is_elsewhere(&error) => {
                let layout = self
                    .session
                    .mdc(fid)?
                    .get_layout(&Credentials::root(), GetLayout { fid, write: false, start, end })
                    .await?;
                self.fetch_by(&layout, fid, start, end).await
            }
            answer => answer,
        }
    }

    async fn fetch_by(
        &self,
        layout: &Layout,
        fid: Fid,
        start: u64,
        end: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        let parts = parts(layout, fid, start, end);
        let mut work: Vec<BoxFuture<'static, Result<Bytes, ClientError>>> =
            Vec::with_capacity(parts.len());
        for part in &parts {
            let len = part.len as u32;
            match part.place {
                Where::Object(ost, object, offset) => {
                    let osc = self.session.targets.osc(ost)?;
                    work.push(Box::pin(async move { Ok(osc.read(object, offset, len).await?) }));
                }
                Where::Mdt => {
                    let (mdc, offset) = (self.session.mdc(fid)?, part.file);
                    work.push(Box::pin(async move {
                        Ok(mdc.read(&Credentials::root(), fid, offset, len).await?.1)
                    }));
                }
                Where::Nowhere => {}
            }
        }
        let mut answers = fan_out(work).await.into_iter();
        let mut data = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut bytes = match part.place {
                Where::Nowhere => Bytes::new(),
                Where::Object(..) | Where::Mdt => {
                    answers.next().expect("one answer per question")?
                }
            };
            bytes.truncate(part.len);
            let missing = part.len - bytes.len();
            if !bytes.is_empty() {
                data.push(bytes);
            }
            push_zeros(&mut data, missing);
        }
        Ok(data)
    }

    /// Stores `data` at `start`. The layout must be instantiated there.
    pub async fn store(
        &self,
        layout: &Layout,
        (fid, epoch): (Fid, SessionEpoch),
        start: u64,
        data: &Bytes,
        flags: WriteFlags,
    ) -> Result<Stored, ClientError> {
        let end = start + data.len() as u64;
        if end <= layout.mdt_bytes() {
            let attr =
                store_on_mdt(self.session.mdc(fid)?, fid, start, data.clone(), flags).await?;
            return Ok(Stored {
                bytes: end - start,
                blocks_delta: 0,
                error: None,
                attr: Some(attr),
            });
        }
        let parts = parts(layout, fid, start, end);
        let mut work: Vec<BoxFuture<'static, Result<i64, ClientError>>> =
            Vec::with_capacity(parts.len());
        for part in &parts {
            let from = (part.file - start) as usize;
            let slice = data.slice(from..from + part.len);
            match part.place {
                Where::Object(ost, object, offset) => {
                    let osc = self.session.targets.osc(ost)?;
                    work.push(Box::pin(async move {
                        Ok(osc.write(object, offset, slice, flags.sync).await?)
                    }));
                }
                Where::Mdt => {
                    let store = store_on_mdt(self.session.mdc(fid)?, fid, part.file, slice, flags);
                    // The MDT counts its own blocks.
                    work.push(Box::pin(async move { store.await.map(|_| 0) }));
                }
                Where::Nowhere => {
                    let reason = "the MDT did not instantiate what is to be written";
                    tracing::error!(%fid, offset = part.file, reason);
                    return Err(ClientError::Layout { fid, reason });
                }
            }
        }
        let mut stored = Stored { bytes: 0, blocks_delta: 0, error: None, attr: None };
        for (part, answer) in
            parts.iter().zip(self.session.while_trusted(fid, epoch, fan_out(work)).await?)
        {
            match answer {
                Ok(delta) => {
                    stored.blocks_delta += delta;
                    if stored.error.is_none() {
                        stored.bytes += part.len as u64;
                    }
                }
                Err(error) => {
                    stored.error.get_or_insert(error);
                }
            }
        }
        Ok(stored)
    }

    /// The layout of `[start, end)`; for `write` with all of it instantiated. No request if the
    /// known one is so already. Another client may have instantiated a missing component since, so
    /// the MDT is asked for reads, too.
    pub async fn layout_for(
        &self,
        credentials: &Credentials,
        file: &File,
        write: bool,
        start: u64,
        end: u64,
    ) -> Result<Arc<Layout>, ClientError> {
        if let Some(layout) = file.layout().filter(|layout| is_instantiated(layout, start, end)) {
            return Ok(layout);
        }
        let layout = self
            .session
            .mdc(file.fid)?
            .get_layout(credentials, GetLayout { fid: file.fid, write, start, end })
            .await?;
        self.rest_on_answers(file);
        Ok(file.learn_layout(layout))
    }
}
