//! What is fetched ahead of a program that reads a file.

use crate::manage::params::values::{mebibytes, mebibytes_text};
use crate::watch::view::View;
use client::client::Client;
use client::read_ahead::{ReadAheadFigures, ReadAheadLimits};
use observe::catalog::*;
use observe::param::Param;
use observe::text::times;
use observe::tree::Tree;
use std::fmt::Write;
use std::sync::Arc;
use types::errno::Errno;

/// Most that can be set of each bound, MiB.
const MB_MAX: u64 = 1 << 20;
/// The kernel's own window, KiB, unless a bound of the mount is smaller.
const KERNEL_KB: u64 = 4096;

type Bound = fn(&mut ReadAheadLimits) -> &mut u64;

pub(super) fn add(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, devices: &[&str; 1]) {
    let bounds: [(&'static Param, Bound); 3] = [
        (&LLITE_MAX_READ_AHEAD_MB, |limits| &mut limits.mount),
        (&LLITE_MAX_READ_AHEAD_PER_FILE_MB, |limits| &mut limits.file),
        (&LLITE_MAX_READ_AHEAD_WHOLE_MB, |limits| &mut limits.whole),
    ];
    for (param, bound) in bounds {
        let (shown, set) = (client.clone(), client.clone());
        tree.shows(param, devices, move || {
            Ok(mebibytes_text(*bound(&mut shown.read_ahead().limits()) >> 10))
        });
        tree.takes(param, devices, move |value| {
            let mut limits = set.read_ahead().limits();
            *bound(&mut limits) = mebibytes(value, MB_MAX)? << 10;
            set_limits(&set, limits)
        });
    }
    let (shown, cleared) = (client.clone(), client.clone());
    let (clock, since) = (view.parts().env.clock.clone(), view.since());
    let clearing = clock.clone();
    tree.shows(&LLITE_READ_AHEAD_STATS, devices, move || {
        let (figures, cleared) = shown.read_ahead().figures();
        Ok(times(clock.wall(), cleared.unwrap_or(since)) + &lines(&figures))
    });
    tree.takes(&LLITE_READ_AHEAD_STATS, devices, move |_| {
        cleared.read_ahead().clear_figures(clearing.wall());
        Ok(())
    });
}

/// The kernel reads ahead for itself, by at most as much.
fn set_limits(client: &Client, limits: ReadAheadLimits) -> Result<(), Errno> {
    let kb = limits.mount.min(limits.file) >> 10;
    client.kernel()?.set_read_ahead_kb(kb.min(KERNEL_KB))?;
    client.read_ahead().set_limits(limits);
    Ok(())
}

/// As Lustre has them; what counted nothing is left out.
fn lines(figures: &ReadAheadFigures) -> String {
    let ReadAheadFigures { hits, misses, miss_inside_window, not_consecutive, .. } = *figures;
    let ReadAheadFigures { discarded, hit_max, requests, pages, .. } = *figures;
    let mut text = String::new();
    for (name, count) in [
        ("hits", hits),
        ("misses", misses),
        ("readpage_not_consecutive", not_consecutive),
        ("miss_inside_window", miss_inside_window),
        ("read_but_discarded", discarded),
        ("hit_max_readahead_issue", hit_max),
        ("async_readahead", requests),
        ("readahead_pages", pages),
    ] {
        if count > 0 {
            writeln!(text, "{name:25} {count} samples [pages]").expect("a string takes all");
        }
    }
    text
}
