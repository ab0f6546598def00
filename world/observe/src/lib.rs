//! Counting of events: one declaration per metric, cheap enough for every hot path.
//!
//! A part declares its metrics as constants ([`metric::Metric`]) and asks the
//! [`registry::Registry`] of its process once for the series it feeds. Counting is then one relaxed
//! atomic add. A reader (the parameter tree, an exporter) takes a snapshot; nothing is formatted
//! before that. This crate reads no clock: durations and the time of a snapshot come from the
//! caller.
//!
//! [`cause`] names the request that a thread works for, [`jobs`] counts by the job that a mount
//! named.
//!
//! Parameters are declared once each in [`catalog`], under Lustre's names. [`tree`] binds them to
//! the devices of this process. [`text`], [`rpc_text`] and [`openmetrics`] write the same counts
//! for `lctl` and for Prometheus.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod catalog;
pub mod cause;
pub mod counter;
pub mod debug;
pub mod fault;
pub mod histogram;
pub mod jobs;
pub mod metric;
pub mod mutant;
pub mod openmetrics;
pub mod param;
pub mod registry;
pub mod rpc_text;
pub mod text;
pub mod tree;
