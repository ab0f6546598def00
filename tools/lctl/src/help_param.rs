//! `lctl help_param`: what a parameter says or does, from its declaration.

use crate::cli::HelpParamArgs;
use observe::catalog;
use observe::param::Param;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Explains.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &HelpParamArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    if args.names.is_empty() {
        return catalog::ALL.iter().try_for_each(|param| out.write_all(text(param).as_bytes()));
    }
    for name in &args.names {
        let wanted = name.replace('/', ".");
        let meant = |param: &&Param| is_meant(param, &wanted);
        let mut found = catalog::ALL.iter().filter(meant).peekable();
        if found.peek().is_none() {
            report.errno(&format!("param_path '{}'", name.replace('.', "/")), Errno::ENOENT);
        }
        for param in found {
            out.write_all(text(param).as_bytes())?;
        }
    }
    Ok(())
}

/// True if `name` is its last word, the beginning of its path, or a path with devices in the place
/// of `*`.
fn is_meant(param: &Param, name: &str) -> bool {
    let same = |(pattern, word): (&str, &str)| pattern == "*" || word == "*" || pattern == word;
    let (levels, words): (Vec<_>, Vec<_>) =
        (param.path.split('.').collect(), name.split('.').collect());
    param.name() == name || (words.len() <= levels.len() && levels.into_iter().zip(words).all(same))
}

fn text(param: &Param) -> String {
    let Param { path, help, unit, default, range, governed, .. } = param;
    let said = [help, governed]
        .into_iter()
        .filter(|said| !said.is_empty())
        .map(|said| format!("    {said}\n"));
    let mut text = format!("{path}\n{}    may be: {}\n", said.collect::<String>(), param.may_be());
    for (what, said) in [("unit", unit), ("default", default), ("values", range)] {
        if !said.is_empty() {
            text += &format!("    {what}: {said}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_and_shown() {
        let found = |name: &str| catalog::ALL.iter().filter(|p| is_meant(p, name)).count();
        assert!(found("stats") > 3);
        assert_eq!(found("osc.*.import"), 1);
        assert_eq!(found("osc.sheen-OST0000-osc-00ff.import"), 1);
        assert!(found("lod") > 3);
        assert_eq!(found("nothing"), 0);
        let expected = "\
lod.*.stripecount
    Stripes of a new file whose directory says nothing.
    may be: read, set
    unit: stripes
    default: 1 (`stripe_count` of node.toml)
    values: 1 to 2000, -1: one on each OST
";
        assert_eq!(text(&catalog::LOD_STRIPECOUNT), expected);
    }
}
