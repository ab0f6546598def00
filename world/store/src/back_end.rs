//! The objects of a target, whichever back end they are on.

use crate::error::StoreError;
use crate::object_store::ObjectStore;
use crate::objects::{Objects, ObjectsOptions};
use crate::store::Store;
use crate::volume::{Volume, device_of};
use env::Env;
use std::path::Path;
use std::sync::Arc;

/// Opens the objects of the target in `dir`, which has the store with this UUID.
///
/// # Errors
/// They are missing, or cannot be read.
pub fn open(
    env: &Env,
    dir: &Path,
    (uuid, store): (u128, &Arc<Store>),
    options: ObjectsOptions,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Ok(match device_of(env, dir)? {
        Some(device) => {
            let volume = Volume::open(env, &device, (uuid, store))?;
            options.bytes_max.into_iter().for_each(|bytes| volume.limit(bytes));
            volume
        }
        None => Objects::open(env, dir, options)?,
    })
}
