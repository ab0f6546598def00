//! Checks whether a file system can serve a requested layout. Its own refusal is a number; this
//! finds the reason before.

use crate::mounts::Mount;
use layout::lov_ea::LovEa;
use std::io;
use types::target::{TargetIndex, TargetKind};

/// Why it cannot.
#[derive(Debug)]
pub enum Unfit {
    /// There is no such pool.
    NoPool(String),
    /// The pool has no OSTs.
    EmptyPool(String),
    /// There is no such OST.
    NoOst(TargetIndex),
    /// The mount does not answer about this pool.
    Silent(String, io::Error),
}

/// The pool that stands in the way, if any does.
pub fn pools(mount: &Mount, wish: &LovEa) -> Option<Unfit> {
    wish.pools().into_iter().find_map(|pool| match mount.pool(&pool.0) {
        Ok(Some(osts)) if !osts.is_empty() => None,
        Ok(Some(_)) => Some(Unfit::EmptyPool(pool.0.clone())),
        Ok(None) => Some(Unfit::NoPool(pool.0.clone())),
        Err(error) => Some(Unfit::Silent(pool.0.clone(), error)),
    })
}

/// The OST that is named and is not there, if any is. `None` also if the mount does not answer: it
/// will say why.
pub fn osts(mount: &Mount, wish: &LovEa) -> Option<Unfit> {
    if !wish.names_osts() {
        return None;
    }
    let known = mount.targets(TargetKind::Ost).ok()?;
    let mut named = wish.layout.components.iter().flat_map(|c| c.stripes.iter().chain(&c.wanted));
    named.find(|ost| !known.iter().any(|(index, _)| index == *ost)).map(|ost| Unfit::NoOst(*ost))
}
