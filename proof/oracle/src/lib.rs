//! An oracle outside the system: random POSIX operations from many threads on several mounts of one
//! file system, and a checker that every answer fits one order that respects real time.
//!
//! [`run`] makes a history ([`history`]). [`check`] splits it into objects ([`split`]) and searches
//! an order for each ([`linear`], with the models [`names`], [`length`], [`register`], [`locks`]).
//! All names together are one object, so half a rename is seen.
//!
//! The length, each 512-byte slot, the mode and each extended attribute of a file are objects of
//! their own. A write need not appear in several slots at once, because Linux does not promise that
//! of pages either. An append that was not seen before its file was cut or forgotten explains
//! nothing and is not checked. Access times have rules of their own ([`accessed`]); other times are
//! not looked at. Whatever the checker reports is a violation; it cannot report what it cannot see.

#![allow(missing_docs, reason = "a library for its own program and tests only")]

pub mod accessed;
pub mod check;
mod descriptors;
pub mod history;
pub mod length;
pub mod linear;
pub mod locks;
pub mod mapped;
pub mod marks;
pub mod names;
pub mod perform;
pub mod register;
pub mod run;
pub mod split;
pub mod window;
mod words;
