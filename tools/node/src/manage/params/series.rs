//! `stats` and its relatives: counted series of one source, shown and cleared.

use crate::watch::view::View;
use observe::param::Param;
use observe::registry::{Registry, Sample};
use observe::text;
use observe::tree::Tree;
use rpc::stats::RPC_STATS;
use std::sync::Arc;
use types::time::Timestamp;

/// `stats` of a source.
pub(super) fn stats(
    tree: &mut Tree,
    view: &Arc<View>,
    param: &'static Param,
    devices: &[&str],
    source: &str,
) {
    body(tree, view, param, devices, source, None::<fn(&[Sample]) -> String>);
}

/// Times, and what `write` makes of all series of the source and of its `rpc_stats`.
pub(super) fn tables(
    tree: &mut Tree,
    view: &Arc<View>,
    param: &'static Param,
    devices: &[&str],
    source: &str,
    write: impl Fn(&[Sample]) -> String + Send + Sync + 'static,
) {
    body(tree, view, param, devices, source, Some(write));
}

fn body(
    tree: &mut Tree,
    view: &Arc<View>,
    param: &'static Param,
    devices: &[&str],
    source: &str,
    tables: Option<impl Fn(&[Sample]) -> String + Send + Sync + 'static>,
) {
    let (registry, clock) = (view.parts().rpc.metrics().clone(), view.parts().env.clock.clone());
    let (name, beside) = (source.to_owned(), format!("{source}{RPC_STATS}"));
    let (cleared, cleared_beside) = (name.clone(), beside.clone());
    let (clearing, clearing_clock) = (registry.clone(), clock.clone());
    tree.shows(param, devices, move || {
        let (now, since) =
            (clock.wall(), registry.since(if tables.is_some() { &beside } else { &name }));
        let Some(write) = &tables else {
            return Ok(text::stats(now, since, &registry.snapshot(|s| s == name)));
        };
        let samples = registry.snapshot(|s| s == name || s == beside);
        Ok(text::times(now, since) + &write(&samples))
    });
    tree.takes(param, devices, move |_| {
        clear(&clearing, &cleared, &cleared_beside, clearing_clock.wall());
        Ok(())
    });
}

/// Sizes are shown in both bodies, so both are cleared.
fn clear(registry: &Registry, source: &str, beside: &str, now: Timestamp) {
    registry.clear(source, now);
    registry.clear(beside, now);
}
