//! The limit of a step: processors, a disk, round trips, or something it waited for.

use bench_report::figure::Limit;

/// From this share on a thing counts as what limits.
const MOST: f64 = 0.7;
/// Likewise for a disk: it has pauses between requests even when everything waits for it.
const DISK_MOST: f64 = 0.5;

/// How the time of one step was spent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Seconds from beginning to end.
    pub wall: f64,
    /// CPU seconds of the program and its daemons.
    pub cpu: f64,
    /// CPU seconds of all processes.
    pub machine_cpu: f64,
    /// Seconds that the busiest disk was at work.
    pub disk: f64,
    /// Processors of the machine.
    pub cpus: f64,
    /// Programs or threads that worked at the same time.
    pub actors: f64,
    /// Round trips that each of them waited for, one after the other, times the delay of the link:
    /// seconds.
    pub on_the_way: f64,
}

impl Spent {
    /// The limit. Each actor and the daemon that answers it take turns, so `actors` processors are
    /// all it can use.
    pub fn limit(&self) -> Limit {
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let usable = self.wall * self.cpus.min(self.actors.max(1.0));
        if share(self.on_the_way, self.wall) >= DISK_MOST {
            Limit::RoundTrips
        } else if share(self.cpu, usable) >= MOST
            || share(self.machine_cpu, self.wall * self.cpus) >= 1.0 - (1.0 - MOST) / 2.0
        {
            Limit::Cpu
        } else if share(self.disk, self.wall) >= DISK_MOST {
            Limit::Disk
        } else {
            Limit::Waiting
        }
    }

    /// Share of the machine's processors that others used, 0 to 1.
    pub fn others(&self) -> f64 {
        let all = self.wall * self.cpus;
        if all > 0.0 { ((self.machine_cpu - self.cpu) / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarce_thing_is_named() {
        let quiet = Spent { wall: 1.0, cpus: 4.0, actors: 1.0, ..Spent::default() };
        assert_eq!(quiet.limit(), Limit::Waiting);
        // One chain of calls cannot use more than one processor.
        assert_eq!(Spent { cpu: 0.8, machine_cpu: 0.8, ..quiet }.limit(), Limit::Cpu);
        assert_eq!(
            Spent { cpu: 0.8, machine_cpu: 0.8, actors: 4.0, ..quiet }.limit(),
            Limit::Waiting
        );
        // Others use the machine.
        assert_eq!(Spent { cpu: 0.1, machine_cpu: 3.9, actors: 4.0, ..quiet }.limit(), Limit::Cpu);
        assert_eq!(Spent { disk: 0.6, ..quiet }.limit(), Limit::Disk);
        assert_eq!(Spent { on_the_way: 0.9, disk: 0.6, ..quiet }.limit(), Limit::RoundTrips);
        assert_eq!(Spent::default().limit(), Limit::Waiting);
    }

    #[test]
    fn others_are_what_is_not_ours() {
        let spent = Spent { wall: 2.0, cpus: 2.0, cpu: 1.0, machine_cpu: 3.0, ..Spent::default() };
        assert_eq!(spent.others(), 0.5);
        assert_eq!(Spent { machine_cpu: 0.5, ..spent }.others(), 0.0);
    }
}
