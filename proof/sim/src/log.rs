//! Log lines of a run: `RUST_LOG` says which, as in `RUST_LOG=info,mds=debug`; errors without it.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Log lines go to standard error from now on, without times: these are not the simulation's.
///
/// # Panics
/// `RUST_LOG` is no list of levels.
pub fn start() {
    let errors = || Targets::new().with_default(LevelFilter::ERROR);
    let shown = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let filter = shown.map_or_else(errors, |text| text.parse().expect("RUST_LOG lists levels"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time();
    // Another test of this process may have begun it.
    drop(tracing_subscriber::registry().with(filter).with(lines).try_init());
}
