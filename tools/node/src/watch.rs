//! What a node shows of itself: status, report, metrics, log lines, waits.

pub mod audit_log;
pub mod logs;
pub mod recent;
pub mod report;
pub mod reporter;
pub mod status;
pub mod view;
pub(crate) mod waits;
pub mod web;
