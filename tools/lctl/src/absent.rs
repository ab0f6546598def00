//! Commands of Lustre's `lctl` that SheenFS does not have: what they are, so that nobody takes them for typing errors, and what
//! does the same here.

use report::Report;
use std::ffi::OsString;
use types::errno::Errno;

/// Name, or the beginning of several names that ends with `_`; what is missing.
const ABSENT: &[(&str, &str)] = &[
    ("abort_recovery_mdt", "clients and MDTs are waited for together; abort_recovery ends that"),
    ("apply_yaml", "set_param -F FILE sets what a file says"),
    ("barrier_", "there is no write barrier yet"),
    ("brw", "sheen bench measures"),
    ("changelog_", "there are no changelogs yet"),
    ("clear", "daemons keep no debug buffer: they write logs"),
    ("conn_list", "get_param *.*.import shows connections"),
    ("create", "sheen bench measures"),
    ("debug_", "daemons keep no debug buffer: they write logs"),
    ("del_ost", "an OST cannot be forgotten yet; conf_param sheen-OST0001.osc.active=0 takes it out of use"),
    ("destroy", "sheen bench measures"),
    ("df", "daemons keep no debug buffer: they write logs"),
    ("dk", "daemons keep no debug buffer: they write logs"),
    ("erase_lcfg", "the MGS keeps no log of records; set_param -P -d forgets a parameter"),
    ("filter", "daemons keep no debug buffer: they write logs"),
    ("find_param", "list_param -R lists everything; help_param explains it"),
    ("getobjversion", "lfs data_version shows the version of a file"),
    ("interface_list", "list_nids shows where daemons listen"),
    ("lcfg_", "the MGS keeps no log of records; set_param -P -d forgets a parameter"),
    ("lfsck_", "sheen fsck checks, of a file system in use, too"),
    ("llog_", "the MGS keeps no log of records; get_param mgs.MGS.live.* shows what it keeps"),
    ("lookup", "lfs path2fid shows the FID of a name"),
    ("lqa_", "there are no quotas yet"),
    ("mark", "daemons keep no debug buffer: they write logs"),
    ("modules", "there are no kernel modules"),
    ("net", "NIDs are given when daemons start: sheen serve --listen"),
    ("network", "NIDs are given when daemons start: sheen serve --listen"),
    ("nodemap_", "there are no nodemaps yet"),
    ("notransno", "set_param osd-lmdb.*.notransno=1 does it"),
    ("pcc", "there is no persistent client cache"),
    ("peer_list", "get_param *.*.import shows connections"),
    ("readonly", "a target cannot be made read-only yet"),
    ("recover", "sessions that end are made again without being told"),
    ("replace_nids", "targets tell the MGS their NIDs whenever they start"),
    ("route_list", "there are no routers yet"),
    ("show", "daemons keep no debug buffer: they write logs"),
    ("show_route", "there are no routers yet"),
    ("snapshot_", "there are no snapshots yet"),
    ("test_", "sheen bench measures"),
];

fn find(word: &str) -> Option<&'static (&'static str, &'static str)> {
    let means = |name: &str| match name.ends_with('_') {
        true => word.starts_with(name) && word != name,
        false => word == name,
    };
    ABSENT.iter().find(|(name, _)| means(name))
}

/// Says what is missing (EOPNOTSUPP), or that there is no such command (EINVAL).
pub fn say(words: &[OsString], report: &mut Report<'_>) {
    let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    match find(&word) {
        Some((_, sentence)) => {
            report.say(&format!("error: {word}: {sentence}"));
            report.count(Errno::EOPNOTSUPP);
        }
        None => report.sentence(&format!("unrecognized subcommand '{word}'; see: lctl --help"), Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Style;

    #[test]
    fn what_is_absent_is_told_apart_from_what_never_was() {
        for (word, status, said) in [
            ("nodemap_add", 95, "error: nodemap_add: there are no nodemaps yet\n"),
            ("changelog_register", 95, "error: changelog_register: there are no changelogs yet\n"),
            ("dk", 95, "error: dk: daemons keep no debug buffer: they write logs\n"),
            ("nodemap_", 22, "error: lctl: unrecognized subcommand 'nodemap_'; see: lctl --help\n"),
            ("get_parm", 22, "error: lctl: unrecognized subcommand 'get_parm'; see: lctl --help\n"),
        ] {
            let mut err = Vec::new();
            let mut report = Report::new("lctl", Style::Lctl, &mut err);
            say(&[OsString::from(word)], &mut report);
            assert_eq!(report.status(), status, "{word}");
            assert_eq!(String::from_utf8(err).unwrap(), said);
        }
        assert!(ABSENT.iter().is_sorted(), "in order, each once");
    }
}
