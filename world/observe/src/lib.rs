//! What happened, counted: one declaration per metric, cheap enough for every hot path.
//!
//! A part declares its metrics as constants ([`metric::Metric`]) and asks the [`registry::Registry`] of its process
//! for the series it feeds, once. Counting is then one relaxed atomic add. Whoever wants to see (the parameter
//! tree, an exporter) takes a snapshot; nothing is formatted before that. This crate reads no clock: durations and
//! the time of a snapshot come from the caller.

pub mod counter;
pub mod histogram;
pub mod metric;
pub mod registry;
pub mod text;
