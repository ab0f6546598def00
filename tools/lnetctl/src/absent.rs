//! Commands of Lustre's `lnetctl` that SheenFS does not have.

use report::absent::Absent;

/// What is missing, or what does the same here.
pub const ABSENT: Absent = Absent {
    program: "lnetctl",
    commands: &[
        ("cpt-of-nid", "daemons have no partitions of processors"),
        ("debug", "lctl dk prints the newest log lines of daemons"),
        ("fault", "lctl net_drop_add and net_delay_add lose and delay messages"),
        ("global", "windows, links and time limits follow the line by themselves"),
        ("lnet", "daemons join their networks when they start"),
        ("recovery", "a peer that is lost is connected again when it is needed"),
        ("set", "windows, links and time limits follow the line by themselves"),
        ("stats", "lctl get_param *.*.stats counts requests"),
        ("udsp", "there are no rules by which paths are chosen"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_there_once() {
        assert!(ABSENT.commands.is_sorted());
        assert!(ABSENT.commands.windows(2).all(|pair| pair[0].0 != pair[1].0));
    }
}
