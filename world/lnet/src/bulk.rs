//! The bulk links of a peer: on which path a new one is made, and which one a request takes. Pure.
//!
//! Each path that is in use has as many links as a peer with one path would have. A large request
//! takes the path with the fewest bytes on their way, equal ones by turns: a slower path gets less.
//! Of that path's links it takes the one with the fewest bytes.
//!
//! A path *fails* when a link of it ends, or cannot be made. It gets no request for a while, then
//! one link is tried, and the pause grows while that fails. Where there is no other path, the peer
//! is lost instead.

use crate::rails::Path;
use env::clock::Monotonic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use types::limits::{LINKS_PER_PEER, LINKS_PER_PEER_MAX};

/// Bulk links that every path has once there is need for one.
pub(crate) const BULK_LINKS_MIN: usize = LINKS_PER_PEER - 1;
/// Data on its way for which a long line has one more bulk link.
const BYTES_PER_LINK: usize = 4 << 20;
/// Links that were not needed for this long are closed.
pub(crate) const LINKS_IDLE: Duration = Duration::from_secs(60);
/// Pause after the only path did not take a further link.
const LINK_PAUSE: Duration = Duration::from_secs(10);
/// Pause after a path failed that is not the only one; it doubles with each further failure.
const PATH_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: a path that works again is used again within this time and that of an attempt.
const PATH_PAUSE_MAX: Duration = Duration::from_secs(4);

/// See the module. `L`: a link.
pub(crate) struct Bulk<L> {
    paths: Vec<Lane>,
    links: Vec<Arc<BulkLink<L>>>,
    /// Number of the next link.
    next: u64,
    /// Whose turn it is among equal paths.
    turn: usize,
    /// When more than the first links were needed.
    needed_at: Monotonic,
    /// A task will close those that are needed no more.
    pub(crate) shrinking: bool,
    closed: bool,
}

/// A path, with what is known of it.
struct Lane {
    path: Path,
    /// Links that are being made.
    opening: usize,
    /// How often it failed since it worked last.
    failures: u32,
    /// No link is made before this time.
    not_before: Monotonic,
}

/// A link of one path.
pub(crate) struct BulkLink<L> {
    number: u64,
    path: usize,
    pub(crate) link: L,
    /// Data of the requests that it carries, there and back.
    bytes: AtomicUsize,
}

/// Data of a request on its link, while the request lasts.
pub(crate) struct Load<L>(Arc<BulkLink<L>>, usize);

impl<L> Load<L> {
    pub(crate) fn link(&self) -> &L {
        &self.0.link
    }
}

impl<L> Drop for Load<L> {
    fn drop(&mut self) {
        self.0.bytes.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// A link that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// Its number.
    pub(crate) number: u64,
    /// Of the paths, counted from 0.
    pub(crate) at: usize,
    pub(crate) path: Path,
    /// The path failed before: the link is tried.
    pub(crate) is_probe: bool,
}

/// What the end of a link means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// It was of no use any more.
    Nothing,
    /// Its path failed; there are others.
    Path,
    /// The peer is lost.
    Peer,
}

/// A path as an administrator sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathUse {
    pub(crate) path: Path,
    pub(crate) up: bool,
    pub(crate) links: usize,
}

fn bytes_of<L>(link: &Arc<BulkLink<L>>) -> usize {
    link.bytes.load(Ordering::Relaxed)
}

impl<L> Bulk<L> {
    /// Without a link. The first path is that of the control link.
    pub(crate) fn new(paths: Vec<Path>) -> Bulk<L> {
        let lane = |path| Lane { path, opening: 0, failures: 0, not_before: Monotonic::ZERO };
        Bulk {
            paths: paths.into_iter().map(lane).collect(),
            links: Vec::new(),
            next: 0,
            turn: 0,
            needed_at: Monotonic::ZERO,
            shrinking: false,
            closed: false,
        }
    }

    /// Links that stand.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Takes no more links; returns those that there are.
    pub(crate) fn close(&mut self) -> Vec<Arc<BulkLink<L>>> {
        self.closed = true;
        std::mem::take(&mut self.links)
    }

    /// Each path, with its links.
    pub(crate) fn uses(&self) -> Vec<PathUse> {
        let one = |(at, lane): (usize, &Lane)| PathUse {
            path: lane.path,
            up: lane.failures == 0,
            links: self.links.iter().filter(|link| link.path == at).count(),
        };
        self.paths.iter().enumerate().map(one).collect()
    }

    /// Links that stand.
    pub(crate) fn links(&self) -> impl Iterator<Item = &L> {
        self.links.iter().map(|link| &link.link)
    }

    fn usable(&self, now: Monotonic) -> usize {
        self.paths.iter().filter(|lane| now >= lane.not_before).count().max(1)
    }

    /// Links that each path is to have for one more request with so much data; `max`: as many as
    /// the only path may have.
    fn wanted(&self, bytes: usize, max: usize, now: Monotonic) -> usize {
        let max = max.min((LINKS_PER_PEER_MAX - 1) / self.paths.len()).max(BULK_LINKS_MIN);
        let load: usize = self.links.iter().map(bytes_of).sum();
        let all = (load + bytes).div_ceil(BYTES_PER_LINK);
        all.div_ceil(self.usable(now)).clamp(BULK_LINKS_MIN, max)
    }

    /// Orders the links that are missing for one more request with so much data. Returns them, and
    /// how many each path is to have.
    pub(crate) fn order(
        &mut self,
        bytes: usize,
        max: usize,
        now: Monotonic,
    ) -> (Vec<Order>, usize) {
        let wanted = self.wanted(bytes, max, now);
        let mut orders = Vec::new();
        if self.closed {
            return (orders, wanted);
        }
        for (at, lane) in self.paths.iter_mut().enumerate() {
            if now < lane.not_before {
                continue;
            }
            let stand = self.links.iter().filter(|link| link.path == at).count();
            // One that failed is tried with a single link.
            let wanted = if lane.failures > 0 { wanted.min(stand + 1) } else { wanted };
            for _ in stand + lane.opening..wanted {
                lane.opening += 1;
                self.next += 1;
                let (number, path, is_probe) = (self.next, lane.path, lane.failures > 0);
                orders.push(Order { number, at, path, is_probe });
            }
        }
        if wanted > BULK_LINKS_MIN {
            self.needed_at = now;
        }
        (orders, wanted)
    }

    /// Takes a link for so much data, where each path is to have `wanted`; `None`: there is none.
    /// Further links lie idle: few requests spread over many connections would find none of them at
    /// speed.
    pub(crate) fn take(&mut self, bytes: usize, wanted: usize) -> Option<Load<L>> {
        let count = self.paths.len();
        let first = self.turn % count;
        self.turn = self.turn.wrapping_add(1);
        let of = |path: usize| self.links.iter().filter(move |link| link.path == path).take(wanted);
        let by_turn = (0..count).map(|n| (first + n) % count);
        let best = by_turn
            .filter(|path| of(*path).next().is_some())
            .min_by_key(|path| of(*path).map(bytes_of).sum::<usize>())?;
        let link = of(best).min_by_key(|link| bytes_of(link))?.clone();
        link.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Load(link, bytes))
    }

    /// An ordered link stands. The link comes back if it is of no use any more.
    pub(crate) fn made(&mut self, order: Order, link: L) -> Result<(), L> {
        let Order { number, at: path, .. } = order;
        self.paths[path].opening -= 1;
        if self.closed {
            return Err(link);
        }
        self.paths[path].failures = 0;
        self.links.push(Arc::new(BulkLink { number, path, link, bytes: AtomicUsize::new(0) }));
        Ok(())
    }

    /// An ordered link could not be made. True if its path has just failed.
    pub(crate) fn not_made(&mut self, order: Order, now: Monotonic) -> bool {
        self.paths[order.at].opening -= 1;
        self.fail(order.at, now)
    }

    /// A link ended.
    pub(crate) fn ended(&mut self, order: Order, now: Monotonic) -> Ended {
        let before = self.links.len();
        self.links.retain(|link| link.number != order.number);
        match (self.links.len() < before, self.paths.len()) {
            (false, _) => Ended::Nothing,
            (true, 1) => Ended::Peer,
            (true, _) => {
                self.fail(order.at, now);
                Ended::Path
            }
        }
    }

    /// A path failed; true if it had worked before.
    fn fail(&mut self, at: usize, now: Monotonic) -> bool {
        let alone = self.paths.len() == 1;
        let lane = &mut self.paths[at];
        // Several links that end together are one failure.
        let again = lane.failures > 0;
        if again && now < lane.not_before {
            return false;
        }
        let doubled = PATH_PAUSE_MIN * 2_u32.pow(lane.failures.min(8));
        let pause = if alone { LINK_PAUSE } else { doubled.min(PATH_PAUSE_MAX) };
        lane.not_before = now + pause;
        lane.failures = if alone { 0 } else { lane.failures.saturating_add(1) };
        !again
    }

    /// Takes out idle links that are not needed any more. True once there is nothing left to do.
    pub(crate) fn shrink(&mut self, now: Monotonic) -> (Vec<Arc<BulkLink<L>>>, bool) {
        let mut idle = Vec::new();
        if now.saturating_sub(self.needed_at) >= LINKS_IDLE {
            let mut kept = vec![0; self.paths.len()];
            // The first links of each path stay.
            self.links.retain(|link| {
                let stays = kept[link.path] < BULK_LINKS_MIN || bytes_of(link) > 0;
                kept[link.path] += usize::from(stays);
                if !stays {
                    idle.push(link.clone());
                }
                stays
            });
        }
        let many = |(at, lane): (usize, &Lane)| {
            let stand = self.links.iter().filter(|link| link.path == at).count();
            stand + lane.opening > BULK_LINKS_MIN
        };
        let done = self.closed || !self.paths.iter().enumerate().any(many);
        self.shrinking = !done;
        (idle, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::nid::Nid;

    const SECOND: Duration = Duration::from_secs(1);
    const MIB: usize = 1 << 20;

    fn bulk(paths: usize) -> Bulk<u64> {
        let path = |n: usize| Path::any(format!("10.{n}.0.1@tcp").parse::<Nid>().unwrap());
        Bulk::new((0..paths).map(path).collect())
    }

    /// Makes all links that are wanted; how many each path got.
    fn make(bulk: &mut Bulk<u64>, bytes: usize, max: usize, now: Duration) -> Vec<usize> {
        let (orders, _) = bulk.order(bytes, max, now);
        let mut made = vec![0; bulk.paths.len()];
        for order in orders {
            made[order.at] += 1;
            bulk.made(order, order.number).unwrap();
        }
        made
    }

    #[test]
    fn links_are_made_by_need_within_bounds() {
        let (now, mut bulk) = (SECOND, bulk(1));
        assert_eq!(bulk.wanted(100 << 10, 16, now), 2, "the first ones");
        assert_eq!(bulk.wanted(64 << 20, 2, now), 2, "a short line has no more");
        let wanted = [8 << 20, 20 << 20, 256 << 20].map(|bytes| bulk.wanted(bytes, 16, now));
        assert_eq!(wanted, [2, 5, 16]);
        let (orders, wanted) = bulk.order(20 << 20, 16, now);
        assert_eq!((orders.len(), wanted), (5, 5));
        assert!(bulk.order(20 << 20, 16, now).0.is_empty(), "they are on their way");
        bulk.made(orders[0], 0).unwrap();
        assert!(bulk.not_made(orders[1], now), "it has just failed");
        assert!(bulk.order(20 << 20, 16, now).0.is_empty(), "one could not be made a moment ago");
        assert_eq!(bulk.order(20 << 20, 16, now + LINK_PAUSE).0.len(), 1);
        bulk.close();
        assert!(bulk.order(20 << 20, 16, now + LINK_PAUSE).0.is_empty());
        assert_eq!(bulk.made(orders[2], 7), Err(7), "it came too late");
    }

    #[test]
    fn requests_are_spread_over_the_paths_by_bytes_and_by_turns() {
        let mut bulk = bulk(2);
        assert!(bulk.take(MIB, 2).is_none());
        assert_eq!(make(&mut bulk, MIB, 2, SECOND), [2, 2], "as many each as one alone has");
        let mut alone = [0, 0];
        for _ in 0..100 {
            // One at a time: all are idle.
            alone[bulk.take(MIB, 2).unwrap().0.path] += 1;
        }
        assert_eq!(alone, [50, 50]);
        let slow: Vec<_> = (0..4).map(|_| bulk.take(MIB, 2).unwrap()).collect();
        let on = |path: usize| slow.iter().filter(|load| load.0.path == path).count();
        assert_eq!((on(0), on(1)), (2, 2));
        let numbers: std::collections::BTreeSet<u64> =
            slow.iter().map(|load| *load.link()).collect();
        assert_eq!(numbers.len(), 4, "and over the links of each");
        // The first path is slow: what it carries stays on its way.
        let (kept, done): (Vec<_>, Vec<_>) = slow.into_iter().partition(|load| load.0.path == 0);
        drop(done);
        let next: Vec<_> = (0..2).map(|_| bulk.take(MIB, 2).unwrap().0.path).collect();
        assert_eq!(next, [1, 1], "with {} on the first", kept.len());
    }

    #[test]
    fn a_path_that_fails_is_left_and_tried_again() {
        let (mut now, mut bulk) = (SECOND, bulk(2));
        let (orders, _) = bulk.order(MIB, 2, now);
        orders.iter().for_each(|order| bulk.made(*order, order.number).unwrap());
        let ends = |bulk: &mut Bulk<u64>, at: usize, now| {
            let of: Vec<Order> = orders.iter().filter(|order| order.at == at).copied().collect();
            of.into_iter().map(|order| bulk.ended(order, now)).collect::<Vec<_>>()
        };
        assert_eq!(ends(&mut bulk, 1, now), [Ended::Path, Ended::Path]);
        assert_eq!(
            bulk.uses().iter().map(|one| (one.up, one.links)).collect::<Vec<_>>(),
            [(true, 2), (false, 0)]
        );
        assert_eq!(make(&mut bulk, MIB, 2, now), [0, 0]);
        assert!((0..10).all(|_| bulk.take(MIB, 2).unwrap().0.path == 0));
        for pause in [1, 2, 4, 4, 4] {
            now += pause * SECOND - SECOND / 2;
            assert!(bulk.order(MIB, 2, now).0.is_empty(), "{pause}");
            now += SECOND / 2;
            let (probe, _) = bulk.order(MIB, 2, now);
            assert_eq!(probe.iter().map(|order| order.at).collect::<Vec<_>>(), [1], "{pause}");
            assert!(bulk.order(MIB, 2, now).0.is_empty(), "one is tried");
            assert!(!bulk.not_made(probe[0], now), "nothing new");
        }
        now += 4 * SECOND;
        assert_eq!(make(&mut bulk, MIB, 2, now), [0, 1], "it works");
        assert_eq!(make(&mut bulk, MIB, 2, now), [0, 1], "so it gets all");
        let mut used = [0, 0];
        (0..10).for_each(|_| used[bulk.take(MIB, 2).unwrap().0.path] += 1);
        assert_eq!(used, [5, 5]);
    }

    #[test]
    fn a_path_that_lost_one_link_of_two_gets_another_one() {
        let mut bulk = bulk(2);
        let (orders, _) = bulk.order(MIB, 2, SECOND);
        orders.iter().for_each(|order| bulk.made(*order, order.number).unwrap());
        assert_eq!(bulk.ended(orders[0], SECOND), Ended::Path);
        assert_eq!(make(&mut bulk, MIB, 2, SECOND), [0, 0]);
        assert_eq!(make(&mut bulk, MIB, 2, 2 * SECOND), [1, 0]);
        assert!(bulk.uses().iter().all(|one| one.up && one.links == 2));
    }

    #[test]
    fn the_only_path_takes_the_peer_with_it() {
        let mut bulk = bulk(1);
        let (orders, _) = bulk.order(MIB, 2, SECOND);
        orders.iter().for_each(|order| bulk.made(*order, order.number).unwrap());
        assert_eq!(bulk.ended(orders[0], SECOND), Ended::Peer);
        assert_eq!(bulk.ended(orders[0], SECOND), Ended::Nothing);
    }

    #[test]
    fn links_beyond_the_first_of_each_path_are_closed_when_they_are_idle() {
        let mut bulk = bulk(2);
        assert_eq!(make(&mut bulk, 400 << 20, 16, SECOND), [8, 8], "together as one alone has");
        let (idle, done) = bulk.shrink(SECOND + LINKS_IDLE / 2);
        assert_eq!((idle.len(), done), (0, false));
        let (idle, done) = bulk.shrink(SECOND + LINKS_IDLE);
        assert_eq!((idle.len(), done), (12, true));
        assert_eq!(bulk.uses().iter().map(|one| one.links).collect::<Vec<_>>(), [2, 2]);
    }
}
