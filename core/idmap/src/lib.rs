//! The ids as which callers act: decisions over NIDs and ids, and the words in which an
//! administrator sets them.
//!
//! An MDT asks [`rules::Rules`] for the [`types::credentials::Squash`] of a client. Texts come from
//! outside: their parsers are bounded, and their errors say what is wrong, and where.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod ids;
pub mod nids;
pub mod rules;
