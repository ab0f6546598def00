//! Layouts: which object of which OST holds which byte of a file.
//!
//! A layout is a list of components, each covering `[start, end)` of the file. A component is
//! striped over OSTs (RAID0) or lives on the MDT (DoM). It gets its OSTs when it is first written
//! (`stripes` is empty until then). A plain file is one component `[0, EOF)`. A self-extending
//! component grows while its OSTs have room. `docs/layout.md` explains layouts with pictures.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod check;
pub mod codec;
pub mod dir_stripes;
pub mod extend;
pub mod layout;
pub mod lmv_ea;
pub mod lov_ea;
pub mod map;
pub mod placement;
pub mod size;
pub mod stripe_spec;

#[cfg(test)]
mod samples;
