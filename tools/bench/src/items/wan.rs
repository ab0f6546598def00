//! `wan`: a cluster on one side of a long link, a client on the other, in network namespaces of
//! this machine. It measures throughput as percent of the raw TCP throughput over the same link in
//! the same run, and other items over the link, also as percent of what they reach without delay.
//!
//! The link is made by a program that is named (`--wanlink`), or by `tc netem` where the kernel has
//! it. Everything (hosts, link, servers, mount) is made for the run and removed with it.

mod beside;
mod cluster;
mod line;
mod link;
mod own;
mod reads;

use crate::failure::BenchError;
use crate::item::{self, Item, Rounds};
use crate::items::build::Build;
use crate::items::ls::{Elsewhere, Ls};
use crate::items::mdtest::Mdtest;
use crate::items::rtt::Rtt;
use crate::place::Place;
use crate::stop::Stop;
use bench_args::{WanArgs, WanItem};
use bench_report::figure::Role;
use bench_report::figure::{Figure, PlaceReport};
use beside::Beside;
use cluster::Cluster;
use line::Line;
use link::Link;
use own::AtDelay;
use reads::Reads;
use std::path::Path;
use std::time::Duration;

/// Bounds of a round trip that is drawn, milliseconds.
const DRAWN_MS_MIN: u64 = 5;
const DRAWN_MS_MAX: u64 = 250;

/// Runs everything at every delay.
///
/// # Errors
/// There is no way to make a link, or an item fails.
pub fn run(
    args: &WanArgs,
    dir: &Path,
    rounds: Rounds,
    stop: &Stop,
) -> Result<(Vec<PlaceReport>, Vec<Figure>), BenchError> {
    let (mut places, mut done) = (Vec::new(), Vec::new());
    let delays = args.delays.iter().map(|delay| delay.0);
    for delay in delays.chain(args.drawn.then(|| drawn(rounds.seed))) {
        stop.check()?;
        let link = Link::up(delay, args)?;
        let cluster = Cluster::up(&link, args, dir)?;
        // Removed file by file it would take as long as they are far away.
        let far = [Place::mounts(&[cluster.mount().to_owned()], Role::Target)?.kept()];
        let rounds = Rounds { link_delay: delay.as_secs_f64(), ..rounds };
        let ms = delay.as_micros() as f64 / 1000.0;
        for which in &args.items {
            let mut item: Box<dyn Item> = match which {
                WanItem::Line => Box::new(Line::new(args, &link)?),
                WanItem::Mdtest => Box::new(Mdtest::new(&args.mdtest())),
                WanItem::Reads => Box::new(Reads::new(args, &link, cluster.beside(&link)?)),
                WanItem::Beside => {
                    let other = cluster.beside(&link)?;
                    Box::new(Beside::new(args, other, cluster.processes())?)
                }
                // A client that is far away would take hours to make them.
                WanItem::Ls => Box::new(Ls::of_another(&args.ls(), elsewhere(&cluster, &link)?)),
                WanItem::Build => Box::new(Build::new(&args.build())),
                WanItem::Rtt => Box::new(Rtt::new(&args.rtt())),
            };
            let figures = item::run(&mut *item, &far, rounds, stop)?;
            done.extend(figures.into_iter().map(|figure| AtDelay { ms, figure }));
        }
        places.extend(
            far.iter()
                .map(Place::described)
                .map(|place| PlaceReport { name: format!("{ms} ms away"), ..place }),
        );
        // The mount before the servers, all before the hosts.
        drop(far);
        drop(cluster);
        drop(link);
    }
    let shares = own::shares(&done);
    let figures = done.into_iter().map(|AtDelay { ms, figure }| over_the_link(figure, ms));
    Ok((places, figures.chain(shares).collect()))
}

fn elsewhere(cluster: &Cluster, link: &Link) -> Result<Elsewhere, BenchError> {
    let mount = cluster.beside(link)?.to_owned();
    Ok(Elsewhere { mount, forget: Box::new(cluster.forgetting()) })
}

/// A round trip for which nothing was tuned, from the seed.
fn drawn(seed: u64) -> Duration {
    let most = (DRAWN_MS_MAX - DRAWN_MS_MIN) * 10;
    let tenths = fastrand::Rng::with_seed(seed).u64(0..=most);
    Duration::from_micros(DRAWN_MS_MIN * 1000 + tenths * 100)
}

/// The figure of an item as one of `wan`.
fn over_the_link(figure: Figure, ms: f64) -> Figure {
    let mut tags = figure.tags;
    tags.insert("rtt_ms".to_owned(), ms.to_string());
    let results = figure.results.into_iter().map(|mut result| {
        result.place = format!("{ms} ms away");
        result
    });
    let results = results.collect();
    Figure {
        item: "wan".to_owned(),
        what: format!("{ms} ms: {}", figure.what),
        tags,
        results,
        ..figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_depends_on_the_seed_and_lies_between_the_bounds() {
        let delays: Vec<Duration> = (0..100).map(drawn).collect();
        let bounds = Duration::from_millis(DRAWN_MS_MIN)..=Duration::from_millis(DRAWN_MS_MAX);
        assert!(delays.iter().all(|delay| bounds.contains(delay)));
        assert!(delays[0] == drawn(0) && delays.iter().any(|delay| *delay != delays[0]));
    }
}
