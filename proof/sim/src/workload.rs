//! Preferences of a seed's programs. Most do a bit of everything; some seeds are about one thing,
//! over one or two names, so that programs meet in it all the time.

use simenv::rng::Rng;

/// One operation of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Creates a file, or opens it, and uses it.
    Create,
    /// Opens a file that is there, and uses it.
    Open,
    /// Removes a name.
    Unlink,
    /// Renames a file.
    Rename,
    /// Gives a file another name.
    Link,
    /// Removes a directory.
    Rmdir,
    /// Renames a directory.
    RenameDirectory,
    /// Lists a directory.
    Readdir,
    /// Makes a file or symbolic link without opening it.
    Make,
    /// Truncates a file.
    Truncate,
    /// Asks for attributes.
    Stat,
}

/// What is done with an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Writes some blocks.
    Write,
    /// Reads some.
    Read,
    /// Locks it, for a while.
    Lock,
    /// Syncs it.
    Fsync,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Names of files that are used, of those that there are.
    pub files: usize,
    /// In so many of 1000 cases a directory below the root is used.
    pub directory: u64,
    /// Operations of each program.
    pub count: usize,
    /// How often an open file is used, at least and at most.
    pub rounds: (u64, u64),
    /// Longest pause before each use, microseconds.
    pub pause_us: u64,
    /// In so many of 1000 cases a program splits or merges a directory before it uses it.
    pub splits: u64,
    /// In so many of 1000 cases a directory is moved two levels down.
    pub deep: u64,
    /// The programs of every second mount only look ([`crate::program`]).
    pub watched: bool,
    operations: &'static [(Operation, u64)],
    uses: &'static [(Use, u64)],
}

/// A bit of everything.
pub const USUAL: Workload = Workload {
    files: 4,
    directory: 600,
    count: 40,
    rounds: (1, 3),
    pause_us: 0,
    splits: 60,
    deep: 0,
    watched: false,
    operations: &[
        (Operation::Create, 25),
        (Operation::Open, 20),
        (Operation::Unlink, 8),
        (Operation::Rename, 8),
        (Operation::Link, 6),
        (Operation::Rmdir, 5),
        (Operation::RenameDirectory, 5),
        (Operation::Readdir, 6),
        (Operation::Make, 6),
        (Operation::Truncate, 6),
        (Operation::Stat, 5),
    ],
    uses: &[(Use::Write, 4), (Use::Read, 4), (Use::Lock, 1), (Use::Fsync, 1)],
};

/// Programs that compete for locks.
pub const LOCKERS: Workload = Workload {
    files: 1,
    directory: 0,
    operations: &[(Operation::Create, 4), (Operation::Open, 15), (Operation::Stat, 1)],
    uses: &[(Use::Write, 1), (Use::Read, 1), (Use::Lock, 7), (Use::Fsync, 1)],
    ..USUAL
};

/// Files are removed while programs have them open.
pub const REMOVERS: Workload = Workload {
    files: 2,
    directory: 0,
    operations: &[
        (Operation::Create, 9),
        (Operation::Open, 5),
        (Operation::Unlink, 9),
        (Operation::Rename, 2),
    ],
    uses: &[(Use::Write, 4), (Use::Read, 5), (Use::Fsync, 1)],
    ..USUAL
};

/// Names come and go, and all programs look.
pub const NAMERS: Workload = Workload {
    files: 2,
    directory: 0,
    count: 100,
    operations: &[
        (Operation::Make, 6),
        (Operation::Unlink, 5),
        (Operation::Rename, 4),
        (Operation::Link, 3),
        (Operation::Stat, 6),
        (Operation::Readdir, 4),
    ],
    ..USUAL
};

/// For longer, so that clients and MDTs can die together several times.
pub const WITNESSES: Workload = Workload { count: 200, ..NAMERS };

/// One file is written all the time, and kept open for long.
pub const WRITERS: Workload = Workload {
    files: 1,
    directory: 0,
    count: 5,
    rounds: (20, 60),
    pause_us: 600_000,
    splits: 60,
    deep: 0,
    watched: false,
    operations: &[(Operation::Create, 1), (Operation::Open, 3)],
    uses: &[(Use::Write, 5), (Use::Read, 4), (Use::Fsync, 1)],
};

/// One file is written by all clients at once, in the same blocks and in others: it becomes shared.
pub const SHARERS: Workload = Workload {
    files: 1,
    directory: 0,
    count: 6,
    rounds: (20, 80),
    pause_us: 60_000,
    splits: 60,
    deep: 0,
    watched: false,
    operations: &[
        (Operation::Create, 3),
        (Operation::Open, 12),
        (Operation::Stat, 2),
        (Operation::Truncate, 1),
    ],
    uses: &[(Use::Write, 10), (Use::Read, 8), (Use::Fsync, 1)],
};

/// Two files are written and synced all the time.
pub const SYNCERS: Workload = Workload {
    files: 2,
    count: 8,
    pause_us: 60_000,
    uses: &[(Use::Write, 5), (Use::Read, 3), (Use::Fsync, 2)],
    ..WRITERS
};

/// Names and directories go from one MDT to another, and all programs look.
pub const MOVERS: Workload = Workload {
    files: 2,
    directory: 800,
    count: 70,
    splits: 150,
    deep: 400,
    operations: &[
        (Operation::Make, 5),
        (Operation::Create, 2),
        (Operation::Unlink, 3),
        (Operation::Rename, 6),
        (Operation::Link, 4),
        (Operation::RenameDirectory, 8),
        (Operation::Rmdir, 2),
        (Operation::Stat, 4),
        (Operation::Readdir, 9),
    ],
    ..USUAL
};

/// Names go from one MDT to another, and directories are split and merged, while programs on other
/// mounts do nothing but look.
pub const READERS: Workload = Workload {
    files: 2,
    directory: 850,
    count: 60,
    splits: 200,
    watched: true,
    operations: &[
        (Operation::Make, 6),
        (Operation::Create, 1),
        (Operation::Unlink, 3),
        (Operation::Rename, 9),
        (Operation::Link, 5),
        (Operation::Stat, 1),
    ],
    ..USUAL
};

fn draw<T: Copy>(rng: &mut Rng, weights: &[(T, u64)]) -> T {
    let mut roll = rng.below(weights.iter().map(|(_, weight)| weight).sum());
    for (what, weight) in weights {
        match roll.checked_sub(*weight) {
            Some(rest) => roll = rest,
            None => return *what,
        }
    }
    unreachable!("the roll is below the sum of the weights")
}

impl Workload {
    /// The next operation.
    pub fn operation(&self, rng: &mut Rng) -> Operation {
        draw(rng, self.operations)
    }

    /// The next thing that is done with an open file.
    pub fn usage(&self, rng: &mut Rng) -> Use {
        draw(rng, self.uses)
    }
}
