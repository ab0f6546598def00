//! Arguments of `sheen bench mdts`.

use crate::delay;
use clap::{Args, ValueEnum};
use node::config::units::Span;

/// Ranks for each MDT by default. A rank waits for its answer, and in a directory of all, chance
/// says on which MDT its next name is. So of K ranks on N MDTs some wait in one queue while other
/// MDTs have none, and these do K / (K + N - 1) of what they could (a closed network of queues).
const RANKS: u16 = 16;
/// Items of each rank by default: with n names for each of N MDTs the busiest has about
/// 1 + sqrt(2 ln N / n) of the mean, by chance alone.
const ITEMS: u32 = 200;

/// Arguments of `mdts`.
#[derive(Clone, Debug, Args)]
pub struct MdtsArgs {
    /// Numbers of MDTs; the others are compared to the first
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub mdts: Vec<u16>,
    /// Ranks for each MDT; there is a client for every two
    #[arg(long, value_name = "N", default_value_t = RANKS, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub ranks: u16,
    /// Files, and then directories, of each rank
    #[arg(long, value_name = "N", default_value_t = ITEMS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub items: u32,
    /// How long an MDT works on a request, whichever it is
    #[arg(long, value_name = "TIME", default_value = "2.5ms", value_parser = delay)]
    pub service_time: Span,
    /// Where the ranks work
    #[arg(
        long,
        value_name = "PLACE",
        value_enum,
        value_delimiter = ',',
        default_value = "private,shared,split,remote"
    )]
    pub places: Vec<MdtsPlace>,
    /// So many names on one MDT make the directory of "split" split; fewer than by default, as
    /// requests are slower
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub split_count: u32,
}

/// Directories of `mdts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum MdtsPlace {
    /// One for each rank, spread over the MDTs as wholes
    Private,
    /// One for all, made with a stripe on each MDT
    Shared,
    /// One for all, made on one MDT, which splits by itself
    Split,
    /// One for each rank; directories that are made in it go to another MDT. Files are left out
    Remote,
}

impl MdtsPlace {
    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            MdtsPlace::Private => "private",
            MdtsPlace::Shared => "shared",
            MdtsPlace::Split => "split",
            MdtsPlace::Remote => "remote",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_leaves_room_for_the_goals() {
        for mdts in [2, 4, 8, 16, 38] {
            let (n, ranks) = (f64::from(mdts), f64::from(RANKS));
            let names = ranks * f64::from(ITEMS);
            let busiest = 1.0 + (2.0 * n.ln() / names).sqrt();
            assert!(busiest <= 1.05, "{mdts} MDTs: the busiest has {busiest:.3} of the mean");
            let efficiency = ranks * n / (ranks * n + n - 1.0);
            assert!(efficiency >= 0.94, "{mdts} MDTs: {efficiency:.3}");
        }
    }
}
