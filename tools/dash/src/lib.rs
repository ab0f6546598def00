//! Seeing inside a running cluster.
//!
//! Each process reports to the MGS how it is (`wire::report`). [`cluster`] makes of these reports a picture ([`rows`])
//! with states, rates and the past hour ([`series`]), [`chain`] says what waits for whom, [`page`] is the web page that
//! shows both, [`http`] answers GET requests and [`access`] decides who may ask, over [`connections`] that are bounded;
//! [`accept`] is a bounded loop for other sockets. Nothing here changes anything, and nothing here knows servers or mounts (docs/dash.md).

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
