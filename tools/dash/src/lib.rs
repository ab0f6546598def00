//! Seeing inside a running cluster.
//!
//! Each process reports its state to the MGS (`wire::report`). [`cluster`] makes a picture of these
//! reports ([`rows`]) with states, rates and the past hour ([`series`]). [`chain`] shows what waits
//! for what, and [`page`] is the web page that shows both. [`http`] answers GET requests,
//! [`access`] decides which may be answered, and [`connections`] bounds their connections;
//! [`accept`] is a bounded loop for other sockets. Nothing here changes anything or knows servers
//! or mounts (docs/dash.md).

pub mod accept;
pub mod access;
pub mod chain;
pub mod cluster;
pub mod connections;
pub mod http;
pub mod page;
pub mod rates;
pub mod rows;
pub mod series;
