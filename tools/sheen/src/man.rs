//! `sheen man DIR`: one page per command, from the same definition as `--help`.

use crate::applet::APPLETS;
use crate::cli::{Cli, ManArgs};
use crate::outcome::{Exit, Failure, Outcome};
use crate::output;
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
        let subs: Vec<_> = subs.map(|sub| (format!("{}-{}", applet.name, sub.get_name()), sub.clone())).collect();
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

    #[test]
    fn every_command_has_a_page() {
        let pages = pages();
        let names: Vec<_> = pages.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(
            names,
            [
                "sheen.8",
                "sheen-up.8",
                "sheen-down.8",
                "sheen-status.8",
                "sheen-serve.8",
                "sheen-mkfs.8",
                "sheen-mount.8",
                "sheen-lctl.8",
                "sheen-lfs.8",
                "sheen-completion.8",
                "sheen-man.8",
                "mkfs.sheen.8",
                "mount.sheen.8",
                "lctl.8",
                "lctl-dl.8",
                "lctl-activate.8",
                "lctl-deactivate.8",
                "lctl-get_param.8",
                "lctl-set_param.8",
                "lctl-list_param.8",
                "lctl-help_param.8",
                "lctl-list_nids.8",
                "lctl-ping.8",
                "lctl-which_nid.8",
                "lfs.8",
                "lfs-setstripe.8",
                "lfs-getstripe.8",
                "lfs-osts.8",
                "lfs-mdts.8",
                "lfs-df.8",
                "lfs-path2fid.8",
                "lfs-getname.8"
            ]
        );
        let up = String::from_utf8(pages[1].1.clone()).unwrap();
        assert!(up.contains("stripe\\-count"), "{up}");
    }
}
