//! The ids as which callers act: decisions over NIDs, keys and ids, and the words in which an
//! administrator sets them.
//!
//! An MDT asks [`set::Nodemaps`] for the nodemap of a client, and [`rules::Rules`] for the
//! [`types::credentials::Squash`] that its parameters say; [`acting::Acting`] decides by both.
//! Texts come from outside: their parsers are bounded, and their errors say what is wrong, and
//! where.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod acting;
pub mod ids;
pub mod nids;
pub mod nodemap;
pub mod property;
pub mod rules;
pub mod scope;
pub mod set;
pub mod spans;
