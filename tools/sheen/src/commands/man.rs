//! `sheen man DIR`: one page per command, from the same definition as `--help`.

use crate::called::applet::APPLETS;
use crate::cli::{Cli, ManArgs};
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use clap::CommandFactory;
use std::fs;
use std::path::Path;

/// Section of the pages: system administration.
const SECTION: &str = "8";

/// Writes the pages and prints their paths.
pub fn run(args: &ManArgs) -> Outcome {
    let mut paths = String::new();
    for (name, page) in pages() {
        let path = args.dir.join(name);
        write(&path, &page)?;
        paths.push_str(&format!("{}\n", path.display()));
    }
    output::data(&paths)?;
    Ok(Exit::Done)
}

fn write(path: &Path, page: &[u8]) -> Result<(), Failure> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, page))
        .map_err(|e| Failure::Failed(format!("cannot write the man page {}: {e}", path.display())))
}

/// File name and text of every page.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut sheen = Cli::command();
    sheen.build();
    let mut commands = vec![(sheen.get_name().to_owned(), sheen.clone())];
    for sub in sheen.get_subcommands().filter(|c| !c.is_hide_set()) {
        commands.push((format!("sheen-{}", sub.get_name()), sub.clone()));
    }
    for applet in APPLETS {
        let mut command = (applet.command)();
        command.build();
        let subs = command.get_subcommands().filter(|c| c.get_name() != "help");
        let subs: Vec<_> =
            subs.map(|sub| (format!("{}-{}", applet.name, sub.get_name()), sub.clone())).collect();
        commands.push((applet.name.to_owned(), command));
        commands.extend(subs);
    }
    let page = |(name, command): (String, clap::Command)| {
        let mut text = Vec::new();
        clap_mangen::Man::new(command)
            .title(name.to_uppercase())
            .section(SECTION)
            .manual("SheenFS")
            .render(&mut text)
            .expect("writing to memory");
        (format!("{name}.{SECTION}"), text)
    };
    commands.into_iter().map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that a help text lists, without the one that shows help.
    fn listed(mut command: clap::Command) -> Vec<String> {
        let help = command.render_help().to_string();
        let list = help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty());
        let word = |line: &str| {
            line.strip_prefix("  ")
                .filter(|l| !l.starts_with(' '))?
                .split(' ')
                .next()
                .map(str::to_owned)
        };
        list.filter_map(word).filter(|name| name != "help").collect()
    }

    #[test]
    fn every_command_has_a_page() {
        let mut expected = vec!["sheen.8".to_owned()];
        expected.extend(listed(Cli::command()).iter().map(|name| format!("sheen-{name}.8")));
        for applet in APPLETS {
            expected.push(format!("{}.8", applet.name));
            expected.extend(
                listed((applet.command)()).iter().map(|name| format!("{}-{name}.8", applet.name)),
            );
        }
        for known in ["sheen-up.8", "mount.sheen.8", "lctl-get_param.8", "lfs-setstripe.8"] {
            assert!(expected.iter().any(|name| name == known), "{known} is not in any help text");
        }
        let pages = pages();
        let names: Vec<_> = pages.iter().map(|(n, _)| n.clone()).collect();
        assert_eq!(names, expected);
        let up = String::from_utf8(pages[1].1.clone()).unwrap();
        assert!(up.contains("stripe\\-count"), "{up}");
    }
}
