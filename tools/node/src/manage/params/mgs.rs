//! Parameters of the MGS, and of this process' own session with it.

use super::servers::add_exports;
use super::{mount, series};
use crate::watch::view::View;
use observe::catalog::{MGS_EXPORT_UUID, MGS_LIVE, MGS_NUM_EXPORTS, MGS_STATS};
use observe::tree::Tree;
use std::fmt::Write;
use std::sync::Arc;
use types::errno::Errno;
use types::target::TargetName;
use wire::mgs::FsConfig;

pub(super) fn add(tree: &mut Tree, view: &Arc<View>) {
    mount::add_mgc(tree, view, view.parts().mgc().import());
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
