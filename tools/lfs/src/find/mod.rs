//! `lfs find`: files by name, attributes and layout.
//!
//! [`words`] reads the predicates, which are Lustre's. [`test`] judges a file by its [`facts`], and
//! fetches no more of them than a predicate needs. [`walk`] goes through the tree with several
//! threads; [`format`] prints.

pub(crate) mod compare;
mod facts;
mod format;
mod people;
mod test;
mod walk;
mod when;
pub(crate) mod words;

use crate::cli::FindArgs;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Prints the files that match. Those that cannot be read are reported and skipped.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &FindArgs,
    out: &mut (dyn Write + Send),
    report: &mut Report<'_>,
) -> io::Result<()> {
    match words::parse(&args.words) {
        Ok(query) => walk::run(&query, out, report),
        Err(sentence) => {
            report.sentence(&sentence, Errno::EINVAL);
            Ok(())
        }
    }
}
