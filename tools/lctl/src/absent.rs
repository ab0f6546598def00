//! Commands of Lustre's `lctl` that SheenFS does not have.

use report::absent::Absent;

/// What is missing, or what does the same here.
pub const ABSENT: Absent = Absent {
    program: "lctl",
    commands: &[
        ("add_peer", "lnetctl peer add does it"),
        ("barrier_", "there is no write barrier yet"),
        ("brw", "sheen bench measures"),
        ("changelog_", "there are no changelogs yet"),
        ("conn_list", "lnetctl peer show -v shows connections"),
        ("create", "sheen bench measures"),
        ("debug_", "dk prints the newest log lines of daemons; there is no other debug buffer"),
        ("del_peer", "lnetctl peer del does it"),
        ("destroy", "sheen bench measures"),
        ("df", "dk prints the newest log lines of daemons; there is no other debug buffer"),
        ("erase_lcfg", "the MGS keeps no log of records; set_param -P -d forgets a parameter"),
        ("filter", "dk prints the newest log lines of daemons; there is no other debug buffer"),
        ("getobjversion", "lfs data_version shows the version of a file"),
        ("interface_list", "lnetctl net show shows interfaces"),
        ("lcfg_", "the MGS keeps no log of records; set_param -P -d forgets a parameter"),
        ("lfsck_", "sheen fsck checks, of a file system in use, too"),
        ("llog_", "the MGS keeps no log of records; get_param mgs.MGS.live.* shows what it keeps"),
        ("lookup", "lfs path2fid shows the FID of a name"),
        ("lqa_", "there are no quotas yet"),
        ("modules", "there are no kernel modules"),
        ("net", "lnetctl net add and del change networks"),
        ("network", "lnetctl net add and del change networks"),
        ("nodemap_add_offset", "nodemap_add_idmap maps ranges of ids: --idmap 0-65535:100000"),
        ("nodemap_banlist_", "sheen auth revoke shuts a host out"),
        ("nodemap_del_offset", "nodemap_del_idmap takes ranges of ids out again"),
        ("nodemap_fileset_", "a nodemap has one fileset; nodemap_set_fileset sets it"),
        ("nodemap_set_cap", "what root of a client may, says the property admin"),
        ("nodemap_set_sepol", "there are no security labels"),
        ("notransno", "set_param osd-lmdb.*.notransno=1 does it"),
        ("pcc", "there is no persistent client cache"),
        ("peer_list", "lnetctl peer show shows peers"),
        ("readonly", "a target cannot be made read-only yet"),
        ("recover", "sessions that end are made again without being told"),
        ("route_list", "lnetctl route show shows routes"),
        ("show", "dk prints the newest log lines of daemons; there is no other debug buffer"),
        ("show_route", "lnetctl route show shows routes"),
        ("snapshot_", "there are no snapshots yet"),
        ("test_", "sheen bench measures"),
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
