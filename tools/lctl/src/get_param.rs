//! `lctl get_param`.

use crate::cli::GetParamArgs;
use crate::daemons::Daemons;
use crate::permanent;
use ask::params::{ParamAnswer, ParamRequest};
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Prints what matches.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &GetParamArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    if args.permanent {
        return permanent::list(args, daemons, out, report);
    }
    for pattern in &args.patterns {
        let values = !args.only_name;
        let request = ParamRequest::Get {
            patterns: vec![pattern.clone()],
            recursive: args.recursive,
            values,
        };
        let mut found: Vec<ParamAnswer> = daemons.params(&request, report).into_values().collect();
        found.retain(|p| {
            p.level || ((p.readable || !args.readable) && (p.writable || !args.writable))
        });
        if !args.only_name {
            // A parameter that can only be set is not shown, unless it was asked for by name. A
            // parameter without a value is not shown, unless the last word of the pattern names it
            // or the pattern matches nothing else.
            let shows = found.iter().any(|param| !param.level && param.readable);
            found.retain(|param| {
                let named = !shows || last_word(&param.name) == last_word(pattern);
                let explained = param.reason.is_some() && named;
                !param.level && (param.readable || explained || param.name == *pattern)
            });
        }
        if found.is_empty() {
            report.errno(&format!("param_path '{}'", pattern.replace('.', "/")), Errno::ENOENT);
        }
        for param in &found {
            match (args.only_name, &param.value, param.errno) {
                (true, _, _) => writeln!(out, "{}", classified(param, args.classify, args.path))?,
                (false, Some(value), _) => {
                    out.write_all(shown(args, &as_path(&param.name, args.path), value).as_bytes())?
                }
                (false, None, errno) => {
                    let errno = errno.map_or(Errno(13), Errno);
                    let what = format!("reading '{}'", param.name);
                    match &param.reason {
                        Some(reason) => report.sentence(&format!("{what}: {reason}"), errno),
                        None => report.errno(&what, errno),
                    }
                }
            }
        }
    }
    Ok(())
}

fn last_word(name: &str) -> &str {
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

/// A name, with what `-F` puts behind it.
pub fn classified(param: &ParamAnswer, classify: bool, path: bool) -> String {
    let mark = match classify {
        true if param.level => "/",
        true if param.writable => "=",
        _ => "",
    };
    format!("{}{mark}", as_path(&param.name, path))
}

/// A name with slashes between its levels, if it is to be a path. Dots within a level, as in NIDs,
/// become slashes, too: a name does not tell them apart, and either is understood.
fn as_path(name: &str, path: bool) -> String {
    if path { name.replace('.', "/") } else { name.to_owned() }
}

/// One value: `name=value`, or the lines below the name.
fn shown(args: &GetParamArgs, name: &str, value: &str) -> String {
    let text = value.strip_suffix('\n').unwrap_or(value);
    let lines = value.contains('\n');
    if args.no_name {
        return format!("{text}\n");
    }
    if args.header {
        return text.lines().map(|line| format!("{name}={line}\n")).collect();
    }
    if args.yaml {
        let indented = || text.lines().map(|line| format!("  {line}\n")).collect::<String>();
        return if lines {
            format!("{name}: |\n{}", indented())
        } else {
            format!("{name}: {text}\n")
        };
    }
    format!("{name}={}{text}\n", if lines { "\n" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(args: GetParamArgs) -> [String; 2] {
        [shown(&args, "a.b.c", "8"), shown(&args, "a.b.stats", "one 1\ntwo 2\n")]
    }

    #[test]
    fn values_are_as_lustre_prints_them() {
        let args = GetParamArgs::default;
        assert_eq!(text(args()), ["a.b.c=8\n", "a.b.stats=\none 1\ntwo 2\n"]);
        assert_eq!(text(GetParamArgs { no_name: true, ..args() }), ["8\n", "one 1\ntwo 2\n"]);
        assert_eq!(
            text(GetParamArgs { header: true, ..args() }),
            ["a.b.c=8\n", "a.b.stats=one 1\na.b.stats=two 2\n"]
        );
        assert_eq!(
            text(GetParamArgs { yaml: true, ..args() }),
            ["a.b.c: 8\n", "a.b.stats: |\n  one 1\n  two 2\n"]
        );
    }

    #[test]
    fn names_are_classified() {
        let param = |level, writable| ParamAnswer {
            name: "a.b".into(),
            level,
            readable: true,
            writable,
            value: None,
            errno: None,
            reason: None,
        };
        assert_eq!(classified(&param(true, false), true, false), "a.b/");
        assert_eq!(classified(&param(false, true), true, false), "a.b=");
        assert_eq!(classified(&param(false, false), true, false), "a.b");
        assert_eq!(classified(&param(true, false), false, false), "a.b");
        assert_eq!(classified(&param(false, true), true, true), "a/b=");
    }
}
