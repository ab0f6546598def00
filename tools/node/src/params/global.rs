//! Parameters of the process as a whole.

use crate::view::View;
use observe::catalog::{HEALTH_CHECK, MEMUSED, NIS, PING_INTERVAL, TIMEOUT, VERSION};
use observe::tree::Tree;
use std::fmt::Write;
use std::sync::Arc;
use types::errno::Errno;
use types::limits::{PING_INTERVAL as INTERVAL, REQUEST_TIMEOUT};

pub(super) fn add(tree: &mut Tree, view: &Arc<View>) {
    tree.shows(&VERSION, &[], || Ok(env!("CARGO_PKG_VERSION").to_owned()));
    tree.shows(&TIMEOUT, &[], || Ok(REQUEST_TIMEOUT.as_secs().to_string()));
    tree.shows(&PING_INTERVAL, &[], || Ok(INTERVAL.as_secs().to_string()));
    tree.shows(&MEMUSED, &[], resident_bytes);
    let shown = view.clone();
    tree.shows(&HEALTH_CHECK, &[], move || Ok(health(&shown)));
    let shown = view.clone();
    tree.shows(&NIS, &[], move || {
        let mut text = format!("{:24} status\n", "nid");
        for nid in shown.parts().rpc.nids() {
            writeln!(text, "{:24} up", nid.to_string()).expect("a string takes all");
        }
        Ok(text)
    });
}

/// Bytes of memory that the process holds.
fn resident_bytes() -> Result<String, Errno> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|e| Errno::from(&e))?;
    let pages: u64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or(Errno::EIO)?;
    Ok((pages * rustix::param::page_size() as u64).to_string())
}

/// Lustre's words: `healthy`, or the devices that are not and then `NOT HEALTHY`.
fn health(view: &View) -> String {
    let alive = view.alive();
    let mdts = alive.mdts().into_iter().map(|(_, target)| target);
    let osts = alive.osts().into_iter().map(|(_, target)| target);
    let mut text = String::new();
    for target in mdts.chain(osts).chain(alive.mgs().map(|(_, target)| target)) {
        if let (Some(name), Some(failure)) = (target.name(), target.store().failure()) {
            writeln!(text, "device {name} reported unhealthy: {failure}").expect("a string takes all");
        }
    }
    text.push_str(if text.is_empty() { "healthy" } else { "NOT HEALTHY" });
    text
}
