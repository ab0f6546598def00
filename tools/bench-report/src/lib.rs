//! The figures of a benchmark, and what is made of them: a table for people, and one page of HTML.
//!
//! [`figure`] is what the JSON file has, [`statistics`] the median and spread behind it,
//! [`machine`] where it was measured. [`table`] and [`page`] show it; [`verdict`] says in a
//! sentence what pairs of samples mean. Nothing is measured here: that is `sheen-bench`.

pub mod error;
pub mod figure;
pub mod machine;
pub mod page;
pub mod statistics;
pub mod table;
pub mod verdict;
