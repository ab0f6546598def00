//! Processors for two hosts that are one machine: half of them for each, so that neither takes the
//! other's time.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::io;

/// Passes over the threads of a process: a thread that is made meanwhile may have the processors of
/// before.
const PASSES: usize = 3;

/// The halves.
pub struct Halves {
    all: CpuSet,
    halves: [CpuSet; 2],
}

impl Halves {
    /// The halves of those that this thread may use; `None`: there is only one.
    ///
    /// # Errors
    /// The kernel does not say which they are.
    pub fn new() -> io::Result<Option<Halves>> {
        Ok(Halves::of(sched_getaffinity(None)?))
    }

    fn of(all: CpuSet) -> Option<Halves> {
        let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
        let middle = numbers.len() / 2;
        let set = |numbers: &[usize]| {
            let mut set = CpuSet::new();
            numbers.iter().for_each(|cpu| set.set(*cpu));
            set
        };
        let halves = [set(&numbers[..middle]), set(&numbers[middle..])];
        (middle > 0).then_some(Halves { all, halves })
    }

    /// Lets these processes, and this thread, have the first half, and those the second one, as
    /// long as the value lives. Then they may use all.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give(&self, first: &[i32], second: &[i32]) -> io::Result<Given<'_>> {
        let given = Given { halves: self, processes: [first, second].concat() };
        for (processes, half) in [first, second].into_iter().zip(&self.halves) {
            processes.iter().try_for_each(|process| bind(*process, half))?;
        }
        sched_setaffinity(None, &self.halves[0])?;
        Ok(given)
    }

    /// Lets this thread have the second half.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take_second(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.halves[1])?)
    }
}

/// Processes keep to their half while it lives, and the thread that made it, which drops it.
pub struct Given<'a> {
    halves: &'a Halves,
    processes: Vec<i32>,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        let all = &self.halves.all;
        let back = self.processes.iter().try_for_each(|process| bind(*process, all));
        let back = back.and_then(|()| Ok(sched_setaffinity(None, all)?));
        if let Err(error) = back {
            eprintln!("sheen bench: cannot give processors back: {error}");
        }
    }
}

/// Binds all threads of a process.
fn bind(process: i32, set: &CpuSet) -> io::Result<()> {
    for _ in 0..PASSES {
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let thread = thread?.file_name().to_str().and_then(|name| name.parse().ok());
            match sched_setaffinity(thread.and_then(Pid::from_raw), set) {
                // It has ended.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        numbers.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn the_halves_are_apart_and_one_processor_has_none() {
        let halves = Halves::of(set(&[1, 4, 7])).unwrap().halves;
        assert!(halves[0] == set(&[1]) && halves[1] == set(&[4, 7]));
        assert!(Halves::of(set(&[3])).is_none());
    }

    #[test]
    fn processes_keep_to_their_half_as_long_as_it_is_given() {
        let Some(halves) = Halves::new().unwrap() else { return };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let of_child = || sched_getaffinity(Some(pid)).unwrap();
        let given = halves.give(&[], &[child.id() as i32]).unwrap();
        assert!(of_child() == halves.halves[1]);
        assert!(sched_getaffinity(None).unwrap() == halves.halves[0]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                halves.take_second().unwrap();
                assert!(sched_getaffinity(None).unwrap() == halves.halves[1]);
            });
        });
        drop(given);
        assert!(of_child() == halves.all && sched_getaffinity(None).unwrap() == halves.all);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
