//! Parameters of the process as a whole.

use crate::manage::flavor;
use crate::watch::view::View;
use observe::catalog::{
    DEBUG, FAIL_LOC, FAIL_VAL, FAULT, FAULT_POINTS, HEALTH_CHECK, JOBID_NAME, JOBID_VAR, MEMUSED,
    NIS, PING_INTERVAL, SRPC_FLAVOR, TIMEOUT, VERSION,
};
use observe::fault;
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
    tree.shows(&DEBUG, &[], || Ok(observe::debug::words()));
    tree.takes(&DEBUG, &[], observe::debug::set);
    tree.shows(&FAIL_LOC, &[], || Ok(fault::numbers().0.to_string()));
    tree.takes(&FAIL_LOC, &[], |value| {
        fault::arm_number(any_base(value)?).map_err(|bad| refused(&bad))
    });
    tree.shows(&FAIL_VAL, &[], || Ok(fault::numbers().1.to_string()));
    tree.takes(&FAIL_VAL, &[], |value| {
        fault::set_value(any_base(value)?);
        Ok(())
    });
    tree.shows(&FAULT, &[], || Ok(fault::rules()));
    tree.takes(&FAULT, &[], |value| fault::arm(value).map_err(|bad| refused(&bad)));
    tree.shows(&FAULT_POINTS, &[], || Ok(fault::report()));
    let (shown, set) = (view.parts().jobs.clone(), view.parts().jobs.clone());
    tree.shows(&JOBID_VAR, &[], move || Ok(shown.var()));
    tree.takes(&JOBID_VAR, &[], move |value| set.set_var(value));
    let (shown, set) = (view.parts().jobs.clone(), view.parts().jobs.clone());
    tree.shows(&JOBID_NAME, &[], move || Ok(shown.pattern()));
    tree.takes(&JOBID_NAME, &[], move |value| set.set_pattern(value));
    let shown = view.clone();
    tree.shows(&HEALTH_CHECK, &[], move || Ok(health(&shown)));
    let secured = view.parts().keys.is_some();
    tree.shows(&SRPC_FLAVOR, &["default"], move || Ok(flavor::holds(secured).to_owned()));
    tree.takes(&SRPC_FLAVOR, &["default"], move |value| {
        flavor::check("srpc.flavor.default", value.trim(), secured).map_err(|(errno, why)| {
            tracing::warn!(%why, "flavour");
            errno
        })
    });
    let shown = view.clone();
    tree.shows(&NIS, &[], move || {
        let mut text = format!("{:24} status\n", "nid");
        for nid in shown.parts().rpc.nids() {
            writeln!(text, "{:24} up", nid.to_string()).expect("a string takes all");
        }
        Ok(text)
    });
}

/// A number, decimal or with 0x.
fn any_base(text: &str) -> Result<u32, Errno> {
    let text = text.trim();
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| Errno::EINVAL)
}

/// The sentence goes to the log: the control socket carries an errno.
fn refused(bad: &fault::BadRule) -> Errno {
    tracing::warn!(%bad, "fault point");
    Errno::EINVAL
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
            writeln!(text, "device {name} reported unhealthy: {failure}")
                .expect("a string takes all");
        }
    }
    text.push_str(if text.is_empty() { "healthy" } else { "NOT HEALTHY" });
    text
}
