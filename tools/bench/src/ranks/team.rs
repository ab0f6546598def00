//! All ranks of a place, working on one step together: they start at the same moment, the last one's end counts.

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
    /// One order for each rank; how long all took together.
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

fn threads(posts: &[Post], orders: &[Order], stop: &Stop) -> Result<Duration, BenchError> {
    let ready = Barrier::new(orders.len() + 1);
    std::thread::scope(|scope| {
        let start_rank = |(post, order)| {
            let ready = &ready;
            let rank = move || {
                let door = Post::door(post);
                // Also who has no door comes here: the others wait for all.
                ready.wait();
                order_done(order, door?, stop)
            };
            scope.spawn(rank)
        };
        let ranks: Vec<_> = posts.iter().zip(orders).map(start_rank).collect();
        ready.wait();
        let start = Instant::now();
        let ended: Vec<_> = ranks.into_iter().map(|rank| rank.join()).collect();
        let took = start.elapsed();
        for rank in ended {
            rank.map_err(|_| BenchError::Failed("a rank panicked; please report it".to_owned()))??;
        }
        Ok(took)
    })
}

fn order_done(order: &Order, mut door: Box<dyn super::door::Door>, stop: &Stop) -> Result<(), BenchError> {
    order.perform(&mut *door, stop)
}

fn processes(ranks: &mut [RankProcess], orders: &[Order], stop: &Stop) -> Result<(Duration, Duration), BenchError> {
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
