//! The twin of S3 in memory: for tests and simulation. Each host has a connection of its own, on
//! which requests and answers can be lost.

use crate::blobs::{BlobError, Blobs};
use crate::memory_kv::Delivery;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names in one list.
const LISTED_MAX: usize = 3;

/// Blobs in memory.
#[derive(Default)]
pub struct MemoryBlobs {
    blobs: Mutex<BTreeMap<String, Vec<u8>>>,
}

/// A connection of one host.
pub struct BlobConnection {
    blobs: Arc<MemoryBlobs>,
    deliver: Box<dyn Fn() -> Delivery + Send + Sync>,
}

impl MemoryBlobs {
    /// Without blobs.
    pub fn new() -> Arc<MemoryBlobs> {
        Arc::default()
    }

    /// A connection; `deliver` says what becomes of each request.
    pub fn connect(
        self: &Arc<Self>,
        deliver: impl Fn() -> Delivery + Send + Sync + 'static,
    ) -> Arc<BlobConnection> {
        Arc::new(BlobConnection { blobs: self.clone(), deliver: Box::new(deliver) })
    }

    /// Names of all blobs, in order.
    pub fn names(&self) -> Vec<String> {
        self.blobs.lock().keys().cloned().collect()
    }

    /// Changes a blob behind everyone's back; `None` removes it. False: there is none.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> bool {
        let mut blobs = self.blobs.lock();
        let Some(bytes) = blobs.get_mut(name) else { return false };
        if change(bytes).is_none() {
            blobs.remove(name);
        }
        true
    }
}

impl BlobConnection {
    fn call<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T,
    ) -> Result<T, BlobError> {
        let lost = |what: &str| Err(BlobError::NoAnswer(format!("the {what} was lost")));
        match (self.deliver)() {
            Delivery::RequestLost => lost("request"),
            Delivery::Whole => Ok(work(&mut self.blobs.blobs.lock())),
            Delivery::AnswerLost => {
                // What it would have said is not known to the caller.
                let _ = work(&mut self.blobs.blobs.lock());
                lost("answer")
            }
        }
    }
}

impl Blobs for BlobConnection {
    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
        self.call(|blobs| {
            blobs.insert(name.to_owned(), bytes);
        })
    }

    fn get(&self, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, BlobError> {
        match self.call(|blobs| blobs.get(name).cloned())? {
            Some(bytes) if bytes.len() > bytes_max => {
                Err(BlobError::Refused(format!("{name} is longer than {bytes_max} bytes")))
            }
            found => Ok(found),
        }
    }

    fn list(&self, folder: &str, after: &str) -> Result<Vec<String>, BlobError> {
        let within = format!("{folder}/");
        self.call(|blobs| {
            let names = blobs.keys().filter(|name| name.starts_with(&within) && name[..] > *after);
            names.take(LISTED_MAX).cloned().collect()
        })
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        self.call(|blobs| {
            blobs.remove(name);
        })
    }
}
