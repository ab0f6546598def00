//! `lfs df`: space or inodes of each target.

use crate::chosen;
use crate::cli::{Column, DfArgs};
use ask::mounts::Mount;
use report::{Report, strerror};
use std::fmt::Write as _;
use std::io::{self, Write};
use types::about::SpaceLine;
use types::attr::Statfs;
use types::errno::Errno;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};

/// Prints a table for each mount.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &DfArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let paths: Vec<_> = args.path.iter().cloned().collect();
    let wanted = args.clone();
    let ask = move |mount: &Mount| (mount.clone(), asked(mount, &wanted));
    chosen::each(&paths, report, ask, |(mount, space), report| {
        match space {
            Ok(None) => report.errno(
                &format!("pool '{}'", args.pool.as_deref().unwrap_or_default()),
                Errno::ENOENT,
            ),
            Ok(Some((mdts, osts))) => {
                let table = Table {
                    fsname: mount.names.fsname,
                    dir: &mount.dir.display().to_string(),
                    args,
                };
                out.write_all(table.text(&mdts, &osts).as_bytes())?;
                // It is shown before a mount that hangs is waited for.
                out.flush()?;
            }
            Err(error) => {
                report.failed(&format!("can't get space of '{}'", mount.dir.display()), &error)
            }
        }
        Ok(())
    })
}

/// Space of MDTs and OSTs; of a pool, its OSTs only. `None`: there is no such pool.
fn asked(mount: &Mount, args: &DfArgs) -> io::Result<Option<(Vec<SpaceLine>, Vec<SpaceLine>)>> {
    let members = match args
        .pool
        .as_deref()
        .map(|word| word.split_once('.').unwrap_or((mount.names.fsname.as_str(), word)))
    {
        None => None,
        Some((fsname, pool)) if fsname == mount.names.fsname.as_str() => match mount.pool(pool)? {
            None => return Ok(None),
            members => members,
        },
        Some(_) => return Ok(None),
    };
    let only = |kind: TargetKind, index: Option<u16>| -> io::Result<Vec<SpaceLine>> {
        match index {
            None => mount.space(kind),
            Some(index) => mount.space_of(kind, TargetIndex(index)).map(|line| vec![line]),
        }
    };
    let (with_mdts, with_osts) =
        (args.mdt.is_some() || args.ost.is_none(), args.ost.is_some() || args.mdt.is_none());
    let mut osts = if with_osts { only(TargetKind::Ost, args.ost.flatten())? } else { Vec::new() };
    osts.retain(|line| members.as_ref().is_none_or(|members| members.contains(&line.index)));
    let mdts = if with_mdts { only(TargetKind::Mdt, args.mdt.flatten())? } else { Vec::new() };
    Ok(Some((mdts, osts)))
}

/// Total, free, and available to a user; in KiB or inodes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Row {
    total: u64,
    free: u64,
    available: u64,
}

impl Row {
    fn used(self) -> u64 {
        self.total.saturating_sub(self.free)
    }

    fn add(&mut self, more: Row) {
        self.total = self.total.saturating_add(more.total);
        self.free = self.free.saturating_add(more.free);
        self.available = self.available.saturating_add(more.available);
    }
}

/// Space in KiB, and inodes, of one target or of several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Rows {
    space: Row,
    inodes: Row,
}

impl Rows {
    fn of(s: &Statfs) -> Rows {
        let inodes = Row { total: s.files_total, free: s.files_free, available: s.files_free };
        let [total, free, available] =
            [s.bytes_total, s.bytes_free, s.bytes_available].map(|bytes| bytes >> 10);
        Rows { space: Row { total, free, available }, inodes }
    }
}

struct Table<'a> {
    fsname: FsName,
    dir: &'a str,
    args: &'a DfArgs,
}

impl Table<'_> {
    fn columns(&self) -> Vec<Column> {
        use Column::{Avail, Iavail, Ipcent, Itotal, Iused, Pcent, Size, Source, Target, Used};
        match (&self.args.output[..], self.args.inodes) {
            ([], false) => vec![Source, Size, Used, Avail, Pcent, Target],
            ([], true) => vec![Source, Itotal, Iused, Iavail, Ipcent, Target],
            (chosen, _) => chosen.to_vec(),
        }
    }

    fn text(&self, mdts: &[SpaceLine], osts: &[SpaceLine]) -> String {
        let mut text = String::new();
        if !self.args.no_header {
            let blocks = if self.args.human || self.args.si { "bytes" } else { "1K-blocks" };
            self.line(&mut text, |column| match column {
                Column::Source => "UUID".to_owned(),
                Column::Size => blocks.to_owned(),
                Column::Used => "Used".to_owned(),
                Column::Avail => "Available".to_owned(),
                Column::Pcent => "Use%".to_owned(),
                Column::Itotal => "Inodes".to_owned(),
                Column::Iused => "IUsed".to_owned(),
                Column::Iavail => "IFree".to_owned(),
                Column::Ipcent => "IUse%".to_owned(),
                Column::Target => "Mounted on".to_owned(),
            });
        }
        let mut rows = String::new();
        let mdt_sum = self.rows(&mut rows, TargetKind::Mdt, mdts);
        let ost_sum = self.rows(&mut rows, TargetKind::Ost, osts);
        if !self.args.summary {
            text.push_str(&rows);
            text.push('\n');
        }
        let sum = summary(mdt_sum, ost_sum, mdts.is_empty(), osts.is_empty());
        self.row(&mut text, "filesystem_summary:", sum, self.dir);
        text.push('\n');
        text
    }

    /// The rows of one kind; their sum.
    fn rows(&self, text: &mut String, kind: TargetKind, lines: &[SpaceLine]) -> Rows {
        let mut sum = Rows::default();
        for SpaceLine { index, space } in lines {
            let name = format!("{}_UUID", TargetName { fsname: self.fsname, kind, index: *index });
            match space {
                // Taken out of use by lctl.
                Err(Errno::ESHUTDOWN) => text.push_str(&format!("{name}: inactive device\n")),
                Err(errno) => text.push_str(&format!("{name}: {}\n", strerror(*errno))),
                Ok(space) => {
                    let rows = Rows::of(space);
                    self.row(
                        text,
                        &name,
                        rows,
                        &format!("{}[{}:{}]", self.dir, kind.word(), index.0),
                    );
                    sum.space.add(rows.space);
                    sum.inodes.add(rows.inodes);
                }
            }
        }
        sum
    }

    fn row(&self, text: &mut String, name: &str, Rows { space, inodes }: Rows, place: &str) {
        let ratio = |row: Row| format!("{:3}%", percent(row.used(), row.available));
        self.line(text, |column| match column {
            Column::Source => name.to_owned(),
            Column::Size => self.cell(space.total, false),
            Column::Used => self.cell(space.used(), false),
            Column::Avail => self.cell(space.available, false),
            Column::Pcent => ratio(space),
            Column::Itotal => self.cell(inodes.total, true),
            Column::Iused => self.cell(inodes.used(), true),
            Column::Iavail => self.cell(inodes.available, true),
            Column::Ipcent => ratio(inodes),
            Column::Target => place.to_owned(),
        });
    }

    fn line(&self, text: &mut String, cell: impl Fn(Column) -> String) {
        let padded = |column: Column| match (column, cell(column)) {
            (Column::Source, cell) => format!("{cell:<20}"),
            (Column::Pcent | Column::Ipcent, cell) => format!("{cell:>4}"),
            (Column::Target, cell) => cell,
            (_, cell) => format!("{cell:>11}"),
        };
        writeln!(text, "{}", self.columns().into_iter().map(padded).collect::<Vec<_>>().join(" "))
            .expect("memory");
    }

    /// A number, or with -h one with a decimal and its unit.
    fn cell(&self, n: u64, inodes: bool) -> String {
        if !self.args.human && !self.args.si {
            return n.to_string();
        }
        // Inodes count ones, space counts KiB.
        let units: &[u8] = if inodes { b" KMGTPE" } else { b"KMGTPEZ" };
        let (step, to_step) = match (self.args.si, inodes) {
            (false, _) => (1024.0, 1.0),
            (true, true) => (1000.0, 1.0),
            (true, false) => (1000.0, 1.024),
        };
        let (mut value, mut unit) = (n as f64 * to_step, 0);
        while value >= step && unit + 1 < units.len() {
            value /= step;
            unit += 1;
        }
        match units[unit] {
            b' ' => n.to_string(),
            letter => format!("{value:8.1}{}", char::from(letter)),
        }
    }
}

/// Space is that of the OSTs. Inodes are those of the MDTs, unless the OSTs have fewer objects
/// left.
fn summary(mdts: Rows, osts: Rows, no_mdts: bool, no_osts: bool) -> Rows {
    let space = if no_osts { mdts.space } else { osts.space };
    let inodes = match (mdts.inodes, osts.inodes) {
        (mdts, _) if no_osts => mdts,
        (_, osts) if no_mdts => osts,
        (mdts, osts) if osts.free < mdts.free => Row {
            total: mdts.used().saturating_add(osts.free),
            free: osts.free,
            available: osts.free,
        },
        (mdts, _) => mdts,
    };
    Rows { space, inodes }
}

/// Of what users can have, so much is used; rounded up, as df(1).
fn percent(used: u64, available: u64) -> u128 {
    let all = u128::from(used) + u128::from(available);
    if all == 0 { 0 } else { (u128::from(used) * 100).div_ceil(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(index: u16, kib: [u64; 3], files: [u64; 2]) -> SpaceLine {
        let [bytes_total, bytes_free, bytes_available] = kib.map(|n| n << 10);
        let space = Statfs {
            bytes_total,
            bytes_free,
            bytes_available,
            files_total: files[0],
            files_free: files[1],
        };
        SpaceLine { index: TargetIndex(index), space: Ok(space) }
    }

    fn text(inodes: bool, human: bool, mdts: &[SpaceLine], osts: &[SpaceLine]) -> String {
        let args = DfArgs { inodes, human, ..DfArgs::default() };
        Table { fsname: "lustre".parse().unwrap(), dir: "/mnt/lustre", args: &args }
            .text(mdts, osts)
    }

    fn example() -> ([SpaceLine; 1], [SpaceLine; 2]) {
        let ost = |index| space(index, [313_104, 311_596, 284_436], [90_000, 89_000]);
        ([space(0, [125_056, 122_796, 111_560], [100_000, 99_700])], [ost(0), ost(1)])
    }

    #[test]
    fn blocks_are_as_lustre_prints_them() {
        let (mdts, osts) = example();
        let expected = "\
UUID                   1K-blocks        Used   Available Use% Mounted on
lustre-MDT0000_UUID       125056        2260      111560   2% /mnt/lustre[MDT:0]
lustre-OST0000_UUID       313104        1508      284436   1% /mnt/lustre[OST:0]
lustre-OST0001_UUID       313104        1508      284436   1% /mnt/lustre[OST:1]

filesystem_summary:       626208        3016      568872   1% /mnt/lustre

";
        assert_eq!(text(false, false, &mdts, &osts), expected);
    }

    #[test]
    fn inodes_are_the_mdts_unless_osts_have_fewer_objects() {
        let (mdts, osts) = example();
        let all = text(true, false, &mdts, &osts);
        assert!(
            all.starts_with(
                "UUID                      Inodes       IUsed       IFree IUse% Mounted on\n"
            ),
            "{all}"
        );
        assert!(
            all.contains(
                "\nfilesystem_summary:       100000         300       99700   1% /mnt/lustre\n"
            ),
            "{all}"
        );
        let few = text(true, false, &mdts, &[space(0, [1, 1, 1], [50, 40])]);
        assert!(
            few.contains(
                "\nfilesystem_summary:          340         300          40  89% /mnt/lustre\n"
            ),
            "{few}"
        );
    }

    #[test]
    fn lines_may_be_left_out() {
        let (mdts, osts) = example();
        let args = DfArgs { summary: true, no_header: true, ..DfArgs::default() };
        let table = Table { fsname: "lustre".parse().unwrap(), dir: "/mnt/lustre", args: &args };
        let only = "filesystem_summary:       626208        3016      568872   1% /mnt/lustre\n\n";
        assert_eq!(table.text(&mdts, &osts), only);
    }

    #[test]
    fn columns_can_be_chosen() {
        let (mdts, osts) = example();
        let output = vec![Column::Target, Column::Ipcent, Column::Source, Column::Avail];
        let args = DfArgs { output, ..DfArgs::default() };
        let table = Table { fsname: "lustre".parse().unwrap(), dir: "/m", args: &args };
        let expected = "\
Mounted on IUse% UUID                   Available
/m[MDT:0]   1% lustre-MDT0000_UUID       111560
/m[OST:0]   2% lustre-OST0000_UUID       284436
/m[OST:1]   2% lustre-OST0001_UUID       284436

/m   1% filesystem_summary:       568872

";
        assert_eq!(table.text(&mdts, &osts), expected);
    }

    #[test]
    fn people_get_units() {
        let human = text(false, true, &[], &[space(0, [3 << 19, 1 << 19, 512], [0, 0])]);
        let expected =
            "lustre-OST0000_UUID         1.5G        1.0G      512.0K 100% /mnt/lustre[OST:0]\n";
        assert!(
            human.starts_with(
                "UUID                       bytes        Used   Available Use% Mounted on\n"
            ),
            "{human}"
        );
        assert!(human.contains(expected), "{human}");
        let inodes = text(true, true, &[space(0, [0, 0, 0], [2048, 1000])], &[]);
        assert!(
            inodes.contains("lustre-MDT0000_UUID         2.0K        1.0K        1000  52% "),
            "{inodes}"
        );
    }

    #[test]
    fn units_may_be_those_of_ten() {
        let args = DfArgs { si: true, ..DfArgs::default() };
        let table = Table { fsname: "lustre".parse().unwrap(), dir: "/mnt/lustre", args: &args };
        let cell = [1, 1_000_000, 976_562_500].map(|kib| table.cell(kib, false));
        assert_eq!(cell, ["     1.0K", "     1.0G", "     1.0T"]);
        let args = DfArgs { si: true, inodes: true, ..DfArgs::default() };
        assert_eq!(Table { args: &args, ..table }.cell(1_500_000, true), "     1.5M");
    }

    #[test]
    fn a_lone_kind_sums_up_its_own() {
        let (mdts, osts) = example();
        let only = text(true, false, &[], &osts);
        assert!(
            only.contains(
                "\nfilesystem_summary:       180000        2000      178000   2% /mnt/lustre\n"
            ),
            "{only}"
        );
        let only = text(false, false, &mdts, &[]);
        assert!(
            only.contains(
                "\nfilesystem_summary:       125056        2260      111560   2% /mnt/lustre\n"
            ),
            "{only}"
        );
    }

    #[test]
    fn a_silent_target_has_its_error_and_is_not_counted() {
        let (mdts, [ost, _]) = example();
        let silent = SpaceLine { index: TargetIndex(1), space: Err(Errno::ETIMEDOUT) };
        let text = text(false, false, &mdts, &[ost, silent]);
        assert!(text.contains("[OST:0]\nlustre-OST0001_UUID: Connection timed out\n\n"), "{text}");
        assert!(
            text.contains(
                "\nfilesystem_summary:       313104        1508      284436   1% /mnt/lustre\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn per_cent_is_rounded_up_and_bounded() {
        assert_eq!([percent(0, 0), percent(0, 9), percent(1, 999), percent(9, 0)], [0, 0, 1, 100]);
        assert_eq!(percent(u64::MAX, u64::MAX), 50);
    }
}
