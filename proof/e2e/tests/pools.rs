//! Pools of OSTs: kept by the MGS, sent to MDTs and clients, obeyed by new files.

use e2e::cluster::{Cluster, everywhere};
use e2e::lustre::{lctl, lctl_refuses, lctl_says, lfs, lfs_refuses, parameter, pool_list, soon};
use e2e::programs::write_and_sync;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn index(mnt: &Path, file: &str) -> String {
    lfs(mnt, &["getstripe", "-i", file]).trim().to_owned()
}

#[test]
fn a_pool_holds_the_files_that_name_it() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        assert_eq!(lctl_says(cluster, &["pool_new", "sheen.flash"]), "Pool sheen.flash created\n");
        let added = "OST sheen-OST0001_UUID added to pool sheen.flash\nOST sheen-OST0003_UUID added to pool sheen.flash\n";
        assert_eq!(
            lctl_says(cluster, &["pool_add", "sheen.flash", "OST0001", "sheen-OST[3]_UUID"]),
            added
        );
        assert_eq!(lctl(cluster, &["pool_list", "sheen"]), "Pools from sheen:\nsheen.flash\n");
        let members = "Pool: sheen.flash\nsheen-OST0001_UUID\nsheen-OST0003_UUID\n".to_owned();
        assert_eq!(lctl(cluster, &["pool_list", "sheen.flash"]), members);

        // The client and the MDT hear of it.
        let by_path = format!("{}.flash", mnt.display());
        soon(&members, || pool_list(&mnt, &by_path));
        let alone = "sheen-OST0001_UUID\nsheen-OST0003_UUID\n".to_owned();
        soon(&alone, || parameter(cluster, "lod.*.pools.flash"));

        // Files of a directory with the pool are on its OSTs, however many stripes they wish for;
        // so are those below.
        fs::create_dir(mnt.join("d")).expect("a folder");
        lfs(&mnt, &["setstripe", "-p", "flash", "d"]);
        let line = "stripe_count:  1 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1 pool: flash\n\n";
        assert_eq!(lfs(&mnt, &["getstripe", "-d", "d"]), line);
        fs::create_dir(mnt.join("d/below")).expect("a folder");
        let mut osts = BTreeSet::new();
        for n in 0..8 {
            let (name, below) = (format!("d/f{n}"), format!("d/below/f{n}"));
            for name in [&name, &below] {
                fs::write(mnt.join(name), b"data").expect("write");
                assert_eq!(lfs(&mnt, &["getstripe", "-p", name]), "flash\n");
                osts.insert(index(&mnt, name));
            }
        }
        assert_eq!(osts, ["1", "3"].map(str::to_owned).into(), "both OSTs of the pool, no other");
        lfs(&mnt, &["setstripe", "-c", "-1", "d/all"]);
        assert_eq!(lfs(&mnt, &["getstripe", "-c", "d/all"]), "2\n", "all OSTs of the pool");
        lfs(&mnt, &["setstripe", "-c", "-1", "-p", "none", "d/none"]);
        assert_eq!(lfs(&mnt, &["getstripe", "-c", "d/none"]), "4\n");
        assert_eq!(lfs(&mnt, &["getstripe", "-p", "d/none"]), "");
        lfs(&mnt, &["setstripe", "-o", "0", "d/named"]);
        assert_eq!(
            lfs(&mnt, &["getstripe", "-p", "d/named"]),
            "",
            "OSTs named one by one go before the directory's pool"
        );

        // A component of its own in the pool.
        lfs(
            &mnt,
            &["setstripe", "-E", "1M", "-c", "1", "-E", "-1", "-c", "2", "-p", "flash", "pfl"],
        );
        fs::write(mnt.join("pfl"), vec![1; 2 << 20]).expect("write");
        let all = lfs(&mnt, &["getstripe", "pfl"]);
        let second: BTreeSet<&str> = all
            .split("lcme_id:")
            .nth(2)
            .expect("two components")
            .split("l_ost_idx:")
            .skip(1)
            .map(|rest| rest.split(',').next().unwrap_or_default().trim())
            .collect();
        assert_eq!(second, ["1", "3"].into(), "{all}");

        // Impossible requests.
        let absent = "error: setstripe: pool 'sheen.tape' does not exist; lfs pool_list sheen shows those that do\n";
        lfs_refuses(&mnt, &["setstripe", "-p", "tape", "x"], 2, absent);
        let outside = "error: setstripe: can't set layout of 'x': Invalid argument (22)\n";
        lfs_refuses(&mnt, &["setstripe", "-p", "flash", "-o", "0", "x"], 22, outside);
        assert!(!mnt.join("x").exists(), "a refused file must not stay");
        lctl_refuses(
            cluster,
            &["pool_new", "sheen.flash"],
            17,
            "error: pool_new: pool sheen.flash exists already\n",
        );
        let nobody = "error: pool_new: no daemon of this host knows the file system other\n";
        lctl_refuses(cluster, &["pool_new", "other.flash"], 2, nobody);
        let used = "error: pool_destroy: pool sheen.flash still has OSTs; remove them first\n";
        lctl_refuses(cluster, &["pool_destroy", "sheen.flash"], 39, used);
        let unknown = "error: pool_add: pool sheen.flash or sheen-OST0009 does not exist\n";
        lctl_refuses(cluster, &["pool_add", "sheen.flash", "OST0009"], 2, unknown);

        // It outlives the servers.
        cluster.stop();
        cluster.start();
        assert_eq!(lfs(&mnt, &["pool_list", "sheen.flash"]), members);
        fs::write(mnt.join("d/later"), b"data").expect("write");
        assert!(["1", "3"].contains(&&*index(&mnt, "d/later")));

        // Emptied and destroyed: files stay, new ones go anywhere.
        lctl_says(cluster, &["pool_remove", "sheen.flash", "OST[1-3/2]"]);
        let empty =
            "error: setstripe: pool 'sheen.flash' has no OSTs; lctl pool_add sheen.flash OST\n";
        soon(&"Pool: sheen.flash\n".to_owned(), || pool_list(&mnt, "sheen.flash"));
        lfs_refuses(&mnt, &["setstripe", "-p", "flash", "x"], 22, empty);
        assert_eq!(
            lctl_says(cluster, &["pool_destroy", "sheen.flash"]),
            "Pool sheen.flash destroyed\n"
        );
        soon(&String::new(), || {
            String::from_utf8_lossy(&cluster.lctl(&["get_param", "-N", "lod.*.pools.*"]).stdout)
                .into()
        });
        assert_eq!(fs::read(mnt.join("d/f0")).expect("read"), b"data");
        // The servers have just come back: the MDT gives files to an OST when it has heard it.
        soon(&4, || {
            let osts = (0..8).map(|n| {
                let name = format!("d/after{n}");
                fs::write(mnt.join(&name), b"data").expect("write");
                let ost = index(&mnt, &name);
                fs::remove_file(mnt.join(&name)).expect("remove");
                ost
            });
            osts.collect::<BTreeSet<String>>().len()
        });
    });
}

/// A pool whose OSTs have no room: writing reports it, files elsewhere are not affected, and
/// nothing is lost.
#[test]
fn a_pool_without_space_is_enospc_for_its_files_alone() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2", "--ost-size", "64M", "--dom-size", "0"]);
    let mnt = cluster.mount();
    lctl_says(&cluster, &["pool_new", "sheen.small"]);
    lctl_says(&cluster, &["pool_add", "sheen.small", "OST0000"]);
    soon(&"Pool: sheen.small\nsheen-OST0000_UUID\n".to_owned(), || pool_list(&mnt, "sheen.small"));
    fs::create_dir(mnt.join("d")).expect("a folder");
    lfs(&mnt, &["setstripe", "-p", "small", "d"]);
    fs::write(mnt.join("d/kept"), vec![7; 1 << 20]).expect("write");
    let full = write_and_sync(&mnt.join("d/full"), &vec![1; 80 << 20]);
    assert_eq!(full.expect_err("64 MiB are not 80").raw_os_error(), Some(28));
    lfs(&mnt, &["setstripe", "-i", "1", "other"]);
    fs::write(mnt.join("other"), vec![2; 8 << 20]).expect("the other OST has room");
    // The MDT hears of it within seconds: the full OST gets no more files.
    soon(&vec!["1".to_owned(); 4], || {
        let made = (0..4).map(|n| {
            let name = format!("any{n}");
            // Until then one may still be put on the full OST.
            let written = fs::write(mnt.join(&name), b"data");
            let ost = written.map_or_else(|error| error.to_string(), |()| index(&mnt, &name));
            fs::remove_file(mnt.join(&name)).expect("remove");
            ost
        });
        made.collect()
    });
    assert_eq!(fs::read(mnt.join("d/kept")).expect("read"), vec![7; 1 << 20]);
}
