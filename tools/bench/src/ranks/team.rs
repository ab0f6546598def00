//! All ranks of a place, working on one step together. They start at the same moment; the end of
//! the last one counts.

use super::order::{Order, Post};
use super::process::RankProcess;
use crate::failure::BenchError;
use crate::item::{Done, Work};
use crate::stop::Stop;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The ranks of a place.
pub enum Team {
    /// Threads of this process.
    Threads(Vec<Post>),
    /// Processes.
    Processes(Vec<RankProcess>),
}

impl Team {
    /// Runs one order for each rank; returns the time of all together.
    ///
    /// # Errors
    /// The first that any rank met.
    pub fn work(&mut self, orders: &[Order], stop: &Stop) -> Result<Done, BenchError> {
        let amount = orders.iter().map(|order| order.count as f64).sum();
        let (wall, cpu) = match self {
            Team::Threads(posts) => (threads(posts, orders, stop)?, Duration::ZERO),
            Team::Processes(ranks) => processes(ranks, orders, stop)?,
        };
        Ok(Done::Work(Work { amount, wall: Some(wall), cpu, ..Work::default() }))
    }
}

/// Each rank takes the time itself: a thread that waits for all of them may be woken long after the
/// first began.
fn threads(posts: &[Post], orders: &[Order], stop: &Stop) -> Result<Duration, BenchError> {
    let ready = Barrier::new(orders.len());
    std::thread::scope(|scope| {
        let start_rank = |(post, order): (&Post, &Order)| {
            let (ready, order, post) = (&ready, order.clone(), post.clone());
            let rank = move || -> Result<(Instant, Instant), BenchError> {
                let door = post.door();
                // A rank without a door comes here too: the others wait for all.
                ready.wait();
                let mut door = door?;
                let start = Instant::now();
                order.perform(&mut *door, stop)?;
                Ok((start, Instant::now()))
            };
            scope.spawn(rank)
        };
        let ranks: Vec<_> = posts.iter().zip(orders).map(start_rank).collect();
        let mut times = Vec::with_capacity(ranks.len());
        let mut failed = None;
        for rank in ranks {
            match rank
                .join()
                .map_err(|_| BenchError::Failed("a rank panicked; please report it".to_owned()))
            {
                Ok(Ok(time)) => times.push(time),
                Ok(Err(error)) | Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let first = times.iter().map(|(start, _)| *start).min();
        let last = times.iter().map(|(_, end)| *end).max();
        Ok(first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first))
    })
}

fn processes(
    ranks: &mut [RankProcess],
    orders: &[Order],
    stop: &Stop,
) -> Result<(Duration, Duration), BenchError> {
    for (rank, order) in ranks.iter_mut().zip(orders) {
        rank.make_ready(order)?;
    }
    let start = Instant::now();
    for rank in ranks.iter_mut() {
        rank.go()?;
    }
    let mut cpu = Duration::ZERO;
    for rank in ranks.iter_mut() {
        cpu += rank.ended(stop)?;
    }
    Ok((start.elapsed(), cpu))
}
