//! `mdtest`: ranks make, stat, read and remove files and folders, in folders of their own or in one
//! that all share.
//!
//! A rank's files are statted, read and removed by its neighbour. So with several mounts (or
//! processes) no rank profits from the cache of its own work.

use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step};
use crate::place::Place;
use crate::ranks::order::{Op, Order, Post};
use crate::ranks::process::RankProcess;
use crate::ranks::team::Team;
use bench_args::MdtestArgs;
use bench_report::figure::Unit;
use std::collections::HashMap;

/// One step.
#[derive(Clone, Copy, Debug)]
struct Task {
    op: Op,
    shared: bool,
    bytes: usize,
}

/// The item.
pub struct Mdtest {
    args: MdtestArgs,
    tasks: Vec<Task>,
    teams: HashMap<usize, Team>,
}

impl Mdtest {
    /// Makes the item from its arguments.
    pub fn new(args: &MdtestArgs) -> Mdtest {
        let mut tasks = Vec::new();
        for shared in args.layout.layouts() {
            for bytes in &args.sizes {
                let bytes = bytes.0 as usize;
                tasks.extend([Op::Create, Op::Stat, Op::Read, Op::Remove].map(|op| Task {
                    op,
                    shared: *shared,
                    bytes,
                }));
            }
            tasks.extend([Op::Mkdir, Op::StatDir, Op::Rmdir].map(|op| Task {
                op,
                shared: *shared,
                bytes: 0,
            }));
        }
        Mdtest { args: args.clone(), tasks, teams: HashMap::new() }
    }

    fn team(&mut self, number: usize, place: &Place) -> Result<&mut Team, BenchError> {
        if !self.teams.contains_key(&number) {
            let ranks = 0..self.args.ranks;
            let team = match &place.native {
                Some(native) => {
                    Team::Threads(ranks.map(|_| Post::Native(native.clone())).collect())
                }
                None if self.args.processes => {
                    let start = |rank| RankProcess::start(place.dir(rank).to_owned());
                    Team::Processes(ranks.map(start).collect::<Result<_, _>>()?)
                }
                None => Team::Threads(
                    ranks.map(|rank| Post::Mount(place.dir(rank).to_owned())).collect(),
                ),
            };
            self.teams.insert(number, team);
        }
        self.teams
            .get_mut(&number)
            .ok_or_else(|| BenchError::Failed("there are no ranks".to_owned()))
    }

    /// The orders of all ranks. `round` keeps names of different rounds apart.
    fn orders(&self, task: Task, round: usize) -> Vec<Order> {
        let ranks = self.args.ranks;
        let own = matches!(task.op, Op::Create | Op::Mkdir);
        let order = |rank: usize| {
            // A rank makes its own files, and then works on its neighbour's.
            let owner = if own { rank } else { (rank + 1) % ranks };
            Order {
                op: task.op,
                dir: if task.shared {
                    format!("r{round}/shared")
                } else {
                    format!("r{round}/rank{owner}")
                },
                prefix: format!("rank{owner}.{}.", task.bytes),
                count: self.args.files,
                bytes: task.bytes,
            }
        };
        (0..ranks).map(order).collect()
    }
}

impl Item for Mdtest {
    fn name(&self) -> &'static str {
        "mdtest"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "ranks": self.args.ranks,
            "files_per_rank": self.args.files,
            "ranks_are": if self.args.processes { "processes" } else { "threads" },
            "sizes": self.args.sizes.iter().map(|s| s.0).collect::<Vec<_>>(),
        })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |task: &Task| {
            let place = if task.shared { "one directory" } else { "unique directories" };
            let what = match task.op {
                Op::Create => format!("create {} B, {place}", task.bytes),
                Op::Stat => format!("stat {} B, {place}", task.bytes),
                Op::Read => format!("read {} B, {place}", task.bytes),
                Op::Remove => format!("remove {} B, {place}", task.bytes),
                Op::Mkdir => format!("mkdir, {place}"),
                Op::StatDir => format!("stat of directories, {place}"),
                Op::Rmdir => format!("rmdir, {place}"),
            };
            Step::new(what, Unit::PerSecond, self.args.ranks)
        };
        self.tasks.iter().map(step).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        let ranks = self.args.ranks;
        self.team(spot.number, spot.place)?;
        if step > 0 {
            return Ok(());
        }
        let round = format!("r{}", spot.round);
        let names = std::iter::once("shared".to_owned())
            .chain((0..ranks).map(|rank| format!("rank{rank}")));
        let post = match &spot.place.native {
            Some(native) => Post::Native(native.clone()),
            None => Post::Mount(spot.place.dir(0).to_owned()),
        };
        let mut door = post.door()?;
        door.mkdir("", &round)?;
        for name in names {
            door.mkdir(&round, &name)?;
        }
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let orders = self.orders(self.tasks[step], spot.round);
        self.team(spot.number, spot.place)?.work(&orders, spot.stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_args::Layout;
    use node::config::units::Size;

    #[test]
    fn neighbours_look_at_what_others_made() {
        let args = MdtestArgs {
            files: 3,
            ranks: 2,
            processes: false,
            sizes: vec![Size(0), Size(9)],
            layout: Layout::Both,
        };
        let item = Mdtest::new(&args);
        assert_eq!(item.steps().len(), 2 * (2 * 4 + 3));
        let task = Task { op: Op::Create, shared: false, bytes: 9 };
        let made = item.orders(task, 0);
        let read = item.orders(Task { op: Op::Read, ..task }, 0);
        assert_eq!((made[0].dir.as_str(), read[0].dir.as_str()), ("r0/rank0", "r0/rank1"));
        assert_eq!((&made[0].prefix, &made[1].prefix), (&read[1].prefix, &read[0].prefix));
        let shared = item.orders(Task { shared: true, ..task }, 4);
        assert!(shared.iter().all(|order| order.dir == "r4/shared"));
        assert_ne!(shared[0].prefix, shared[1].prefix);
    }
}
