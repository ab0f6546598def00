//! Parameters that stay: kept by the MGS, and those of a host's own file.

use e2e::cluster::{Cluster, everywhere};
use e2e::lustre::{lctl, lctl_refuses, lctl_says, soon};
use std::fs;

#[test]
fn what_is_set_for_ever_holds_at_once_and_after_a_restart() {
    everywhere(|cluster| {
        let count = || lctl(cluster, &["get_param", "-n", "lod.*.stripecount"]);
        let before = count();
        assert_eq!(lctl_says(cluster, &["set_param", "-P", "lod.*.stripecount=3"]), "");
        soon(&"3\n".to_owned(), count);
        assert!(
            lctl(cluster, &["get_param", "mgs.MGS.live.sheen"]).contains("\nparameters:\n    lod.*.stripecount=3\n")
        );
        // What is set by hand later stands.
        lctl(cluster, &["set_param", "lod.*.stripecount=2"]);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(count(), "2\n");
        // The older spelling.
        assert_eq!(lctl_says(cluster, &["conf_param", "sheen-OST0001.osc.active=0"]), "");
        let active = || lctl(cluster, &["get_param", "-n", "osp.*.active"]);
        soon(&"1\n0\n1\n1\n".to_owned(), active);

        cluster.stop();
        cluster.start();
        let (count, active) = (
            || lctl(cluster, &["get_param", "-n", "lod.*.stripecount"]),
            || lctl(cluster, &["get_param", "-n", "osp.*.active"]),
        );
        soon(&"3\n".to_owned(), count);
        soon(&"1\n0\n1\n1\n".to_owned(), active);

        // Deleted: the value stays until the next start.
        lctl_says(cluster, &["set_param", "-P", "-d", "lod.*.stripecount"]);
        lctl_says(cluster, &["conf_param", "-d", "sheen-OST0001.osc.active"]);
        assert!(!lctl(cluster, &["get_param", "mgs.MGS.live.sheen"]).contains("parameters:"));
        assert_eq!(count(), "3\n");
        cluster.stop();
        cluster.start();
        assert_eq!(lctl(cluster, &["get_param", "-n", "lod.*.stripecount"]), before);
        assert_eq!(lctl(cluster, &["get_param", "-n", "osp.*.active"]), "1\n1\n1\n1\n");
    });
}

#[test]
fn what_does_not_exist_is_not_kept() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let words = |name: &str| {
        format!(
            "error: set_param: {name}: there is no such parameter to be set; lctl help_param explains those that are\n"
        )
    };
    for name in ["lod.*.stripecnt", "stripecount", "lod.*.numobd"] {
        lctl_refuses(&cluster, &["set_param", "-P", &format!("{name}=1")], 2, &words(name));
    }
    let older = "error: conf_param: stripecount: write DEVICE.KIND.NAME=VALUE: sheen-OST0001.osc.active=0\n";
    lctl_refuses(&cluster, &["conf_param", "stripecount=1"], 22, older);
    assert!(!lctl(&cluster, &["get_param", "mgs.MGS.live.sheen"]).contains("parameters:"));
}

#[test]
fn a_host_has_its_own_file() {
    if !e2e::can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client.toml");
    fs::write(&file, "[params]\n\"lod.*.stripesize\" = \"1M\"\n\"lod.*.stripecount\" = 2\n").expect("write");
    let mut cluster = Cluster::up(&[]);
    cluster.stop();
    let settings = cluster.dir().join("node.toml");
    let text = fs::read_to_string(&settings).expect("settings");
    let option = format!("options = \"rw,config={}\"", file.display());
    assert!(text.contains("options = \"rw\""), "{text}");
    fs::write(&settings, text.replace("options = \"rw\"", &option)).expect("write");
    cluster.start();
    assert_eq!(lctl(&cluster, &["get_param", "-n", "lod.*.stripesize", "lod.*.stripecount"]), "1048576\n2\n");
    // The host's own word goes before the MGS's.
    lctl_says(&cluster, &["set_param", "-P", "lod.*.stripecount=1"]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(lctl(&cluster, &["get_param", "-n", "lod.*.stripecount"]), "2\n");
}
