//! Parameters of the MGS, and of this process' own session with it.

use super::servers::add_exports;
use super::{mount, series};
use crate::host::authority::now;
use crate::host::authority::standing::Standing;
use crate::watch::view::View;
use observe::catalog::{
    MGS_AUTHORITIES, MGS_EXPORT_UUID, MGS_KEYS, MGS_KEYS_BEHIND, MGS_KEYS_ENDING, MGS_LIVE,
    MGS_NUM_EXPORTS, MGS_STATS,
};
use observe::tree::Tree;
use std::fmt::Write;
use std::sync::Arc;
use types::errno::Errno;
use types::target::TargetName;
use wire::mgs::FsConfig;

/// Names of each list of [`MGS_KEYS`].
const NAMES_MAX: usize = 1000;

pub(super) fn add(tree: &mut Tree, view: &Arc<View>) {
    mount::add_mgc(tree, view, view.parts().mgc().import());
    add_keys(tree, view);
    let Some((mgs, _)) = view.alive().mgs() else { return };
    series::stats(tree, view, &MGS_STATS, &[], &rpc::stats::source_of_target(TargetName::mgs()));
    add_exports(tree, view, TargetName::mgs(), &[], &MGS_NUM_EXPORTS, &MGS_EXPORT_UUID);
    for fsname in mgs.configs().keys() {
        let (mgs, fsname) = (mgs.clone(), *fsname);
        tree.shows(&MGS_LIVE, &[fsname.as_str()], move || {
            mgs.configs()
                .get(&fsname)
                .map(|config| live(fsname.as_str(), config))
                .ok_or(Errno::ENOENT)
        });
    }
}

/// Where the authority is, whichever host has taken the MGS over.
fn add_keys(tree: &mut Tree, view: &Arc<View>) {
    if view.standing().is_none() {
        return;
    }
    let mut show = |param, say: fn(&Standing) -> String| {
        let view = view.clone();
        tree.shows(param, &[], move || view.standing().as_ref().map(say).ok_or(Errno::ENOENT));
    };
    show(&MGS_KEYS, |standing| standing.yaml(NAMES_MAX, now()));
    show(&MGS_AUTHORITIES, |standing| standing.holding.len().to_string());
    show(&MGS_KEYS_BEHIND, |standing| standing.behind.len().to_string());
    show(&MGS_KEYS_ENDING, |standing| standing.ending(now()).count().to_string());
}

fn live(fsname: &str, config: &FsConfig) -> String {
    let mut text = format!("fsname: {fsname}\nflags: 0x0     gen: {}\n", config.version);
    for target in &config.targets {
        writeln!(text, "{}", target.name).expect("a string takes all");
    }
    if !config.params.is_empty() {
        text.push_str("\nparameters:\n");
    }
    for (name, value) in &config.params {
        writeln!(text, "    {name}={value}").expect("a string takes all");
    }
    if !config.pools.is_empty() {
        text.push_str("\npools:\n");
    }
    for pool in &config.pools {
        let osts: Vec<String> = pool.osts.iter().map(|ost| format!("OST{ost:04x}")).collect();
        writeln!(text, "    {}: {}", pool.name, osts.join(" ")).expect("a string takes all");
    }
    text
}
