//! The parameter tree of this process: every declaration of `observe::catalog` bound to what lives
//! here.
//!
//! The tree is made afresh for each request, from weak references. So it shows the present devices,
//! and nothing has to be taken out when a role ends.

mod flags;
mod global;
mod locks;
mod mgs;
mod mount;
mod series;
mod servers;
mod session;
mod values;

pub(crate) use servers::add_squash;
pub(crate) use session::state_word;

use crate::watch::view::View;
use ask::params::ParamAnswer;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use observe::openmetrics::{self, Gauge};
use observe::param::{Access, Param};
use observe::tree::{BadPattern, Found, Tree, dotted};
use rpc::stats::source_of_target;
use std::sync::Arc;
use types::errno::Errno;

/// Values that are fetched at once: some ask a target.
const AT_ONCE: usize = 64;

/// The tree as of now.
pub fn tree(view: &Arc<View>) -> Tree {
    let mut tree = Tree::new();
    global::add(&mut tree, view);
    mgs::add(&mut tree, view);
    servers::add(&mut tree, view);
    mount::add(&mut tree, view);
    tree
}

/// The parameters that these patterns match, by name, with values if they are wanted.
///
/// # Errors
/// A pattern is none.
pub async fn get(
    view: &Arc<View>,
    patterns: &[String],
    recursive: bool,
    values: bool,
) -> Result<Vec<ParamAnswer>, BadPattern> {
    let tree = tree(view);
    let mut found = Vec::new();
    for pattern in patterns {
        found.extend(tree.find(pattern, recursive)?);
    }
    let answers: Vec<BoxFuture<'_, ParamAnswer>> =
        found.into_iter().map(|(name, found)| answer(name, found, values)).collect();
    Ok(stream::iter(answers).buffered(AT_ONCE).collect().await)
}

fn answer<'a>(name: &'a str, found: Found<'a>, values: bool) -> BoxFuture<'a, ParamAnswer> {
    async move {
        let name = dotted(name);
        let Found::Param(entry) = found else {
            return ParamAnswer {
                name,
                level: true,
                readable: false,
                writable: false,
                value: None,
                errno: None,
                reason: None,
            };
        };
        let access = entry.param.access;
        let value = match values && (access.readable() || access == Access::Explained) {
            true => Some(entry.get().await),
            false => None,
        };
        let error = value.as_ref().and_then(|value| value.as_ref().err()).copied();
        ParamAnswer {
            name,
            level: false,
            readable: access.readable(),
            writable: access.writable(),
            value: value.and_then(Result::ok),
            errno: error.map(|errno| errno.0),
            reason: error.and_then(|errno| reason(entry.param, errno)),
        }
    }
    .boxed()
}

/// Sets everything that the pattern means; an answer for each.
///
/// # Errors
/// The pattern is none.
pub async fn set(
    view: &Arc<View>,
    pattern: &str,
    value: &str,
) -> Result<Vec<ParamAnswer>, BadPattern> {
    let tree = tree(view);
    let mut answers = Vec::new();
    for (name, found) in tree.find(pattern, false)? {
        let Found::Param(entry) = found else { continue };
        let error = entry.set(value.to_owned()).await.err();
        let access = entry.param.access;
        answers.push(ParamAnswer {
            name: dotted(name),
            level: false,
            readable: access.readable(),
            writable: access.writable(),
            value: None,
            errno: error.map(|errno| errno.0),
            reason: error.and_then(|errno| reason(entry.param, errno)),
        });
    }
    Ok(answers)
}

/// A parameter's sentence about a refusal.
fn reason(param: &Param, errno: Errno) -> Option<String> {
    (errno == Errno::EOPNOTSUPP && !param.governed.is_empty()).then(|| param.governed.to_owned())
}

/// All counts and gauges, as Prometheus reads them.
pub async fn metrics(view: &Arc<View>) -> String {
    let tree = tree(view);
    let mut gauges: Vec<Gauge> = Vec::new();
    for (name, entry) in tree.entries().filter(|(_, entry)| entry.gauge) {
        // A gauge that cannot be read now is left out, as the format wants it.
        let Ok(value) = entry.get().await else { continue };
        if let Ok(value) = value.parse() {
            let level = entry.param.path.split('.').position(|level| level == "*");
            let device = level.and_then(|level| name.split('/').nth(level)).unwrap_or_default();
            gauges.push((entry.param, device.to_owned(), value));
        }
    }
    let mut samples = view.parts().rpc.metrics().snapshot(|_| true);
    samples.extend(mount::samples(view));
    let now = view.parts().env.clock.now();
    let (mdts, osts) = (view.alive().mdts(), view.alive().osts());
    let names = mdts
        .iter()
        .map(|(mdt, _)| mdt.name())
        .chain(osts.iter().filter_map(|(_, target)| target.name()));
    let of = |name| Some((source_of_target(name), view.parts().rpc.jobs(name)?.snapshot(now)));
    let jobs: Vec<_> = names.filter_map(of).collect();
    openmetrics::text(&samples, &gauges, &jobs)
}
