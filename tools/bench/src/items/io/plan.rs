//! The steps of `io`.

use bench_args::IoArgs;

/// Length of the segments that several writers of one file take turns with: an odd size known from
/// shared-file benchmarks.
pub const SEGMENT_BYTES: usize = 47_008;
/// Record of the small reads and writes.
pub const SMALL_BYTES: usize = 4096;
/// Record of O_DIRECT, a multiple of every block size.
const DIRECT_BYTES: usize = 1 << 20;

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To the file; ends with fsync and close.
    Write,
    /// From the file, after all caches were emptied.
    Read,
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From beginning to end, each thread in a file of its own.
    Sequential,
    /// So, past the kernel's cache.
    Direct,
    /// At random places of its own file.
    Random,
    /// One file, each thread in its own part.
    SharedParts,
    /// One file, threads taking turns segment by segment.
    SharedInterleaved,
    /// 4 KiB at a time, one read after the other, of many files.
    ManyFiles,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Direction of the data.
    pub access: Access,
    /// In which order.
    pub pattern: Pattern,
    /// Bytes of each read or write.
    pub record: usize,
    /// Bytes of each thread's file or part.
    pub bytes: u64,
    /// Reads or writes of each thread; only for [`Pattern::Random`].
    pub operations: usize,
    /// Threads.
    pub threads: usize,
}

impl Plan {
    /// True if all threads have the same file.
    pub fn shares_one_file(&self) -> bool {
        matches!(self.pattern, Pattern::SharedParts | Pattern::SharedInterleaved)
    }

    /// For people.
    pub fn what(&self) -> String {
        let way = match self.access {
            Access::Write => "write+fsync",
            Access::Read => "cold read",
        };
        let record = match self.record {
            SEGMENT_BYTES => "47,008 B".to_owned(),
            r if r >= 1 << 20 => format!("{} MiB", r >> 20),
            r if r >= 1 << 10 => format!("{} KiB", r >> 10),
            r => format!("{r} B"),
        };
        let threads = self.threads;
        match self.pattern {
            Pattern::Sequential => format!("sequential {way}, {record}, {threads} x own file"),
            Pattern::Direct => format!("O_DIRECT {way}, {record}, {threads} x own file"),
            Pattern::Random => format!("random {way}, {record}, {threads} x own file"),
            Pattern::SharedParts => format!("{way} of one file, {record}, {threads} x own part"),
            Pattern::SharedInterleaved => {
                format!("{way} of one file, {record} interleaved, {threads} threads")
            }
            Pattern::ManyFiles => "4 KiB reads one by one, many files, cold".to_owned(),
        }
    }
}

/// The steps that these arguments ask for, in order: files are written before they are read.
pub fn plans(args: &IoArgs) -> Vec<Plan> {
    let plan = |access, pattern, record| Plan {
        access,
        pattern,
        record,
        bytes: args.size.0,
        operations: args.random,
        threads: args.threads,
    };
    let mut all = Vec::new();
    let mut both = |pattern, record| {
        all.extend([Access::Write, Access::Read].map(|way| plan(way, pattern, record)))
    };
    for record in &args.records {
        both(Pattern::Sequential, record.0 as usize);
    }
    both(Pattern::Random, SMALL_BYTES);
    both(Pattern::Direct, DIRECT_BYTES);
    if args.threads > 1 {
        both(Pattern::SharedParts, DIRECT_BYTES);
        both(Pattern::SharedInterleaved, SEGMENT_BYTES);
    }
    if args.many_files > 0 {
        all.push(Plan { threads: 1, ..plan(Access::Read, Pattern::ManyFiles, SMALL_BYTES) });
    }
    all
}
