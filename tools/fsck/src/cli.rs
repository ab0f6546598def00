//! The command's definition, and its run from arguments to exit status.

use crate::error::FsckError;
use crate::place::Place;
use crate::report::{OPERATIONAL, Report};
use crate::run::{self, Options};
use clap::Args;
use env::real::{RealConfig, RealEnv};
use std::io::Write;

/// Check a file system, at work or at rest; repair it if told to
///
/// Reads every record of the metadata targets and lists every object, and tells what does not fit:
/// names without inodes, inodes without names, wrong link counts, parents and sizes, objects
/// without files, files whose objects are gone, damaged records. Work may go on meanwhile. Nothing
/// is changed without --repair.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status, as fsck(8): the sum of 0 clean, 1 repaired, 4 errors left, 8 something could not \
                        be looked at or done."
)]
pub struct Fsck {
    /// Home of a node, folders of its targets, or the MGS as NID[,NID...][:/FSNAME]
    #[arg(value_name = "DIR|NID", default_value = ".sheen", num_args = 1..)]
    pub place: Vec<String>,
    /// Put right what is wrong, and tell what was done
    #[arg(long)]
    pub repair: bool,
    /// With --repair: remove inodes whose records are damaged, with their names and objects
    #[arg(long, requires = "repair")]
    pub clear: bool,
    /// Print JSON; its keys are stable
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: the report to `out`, failures to `err`, progress to `step`. Returns the exit
/// status.
pub fn run(
    fsck: &Fsck,
    out: &mut dyn Write,
    err: &mut dyn Write,
    step: &mut dyn FnMut(&str),
) -> u8 {
    let told = match check(fsck, step) {
        Ok(report) => {
            let told = if fsck.json { report.json(out) } else { report.text(out) };
            told.and_then(|()| out.flush()).map(|()| report.status())
        }
        Err(error) => writeln!(err, "fsck: {error}").map(|()| OPERATIONAL),
    };
    // The reader of the output has enough or is gone, so the error cannot be reported: the status
    // remains.
    told.unwrap_or(OPERATIONAL)
}

fn check(fsck: &Fsck, step: &mut dyn FnMut(&str)) -> Result<Report, FsckError> {
    let place = Place::find(&fsck.place)?;
    let (env, _guard) = RealEnv::start(RealConfig::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        step("opening");
        let source = place.open(&env).await?;
        let report =
            run::run(&source, Options { repair: fsck.repair, clear: fsck.clear }, step).await;
        let repaired = report.as_ref().map_or(fsck.repair, |report| report.repaired() > 0);
        let closed = source.close(repaired).await;
        let report = report?;
        closed.map(|()| report)
    })
}
