//! Enrolment: from two empty hosts to a mount with keys in four commands, none of which asks
//! anything; and tokens that get no key.

use e2e::can_mount;
use e2e::cluster::RUN_DIR;
use e2e::hosts::Hosts;
use e2e::process::{detach, is_mounted, text};
use e2e::sheen;
use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

/// Hosts with folders of their own. Host 1 founds the cluster.
struct Site {
    hosts: Hosts,
    dir: tempfile::TempDir,
}

impl Site {
    fn new(hosts: usize) -> Option<Site> {
        Some(Site { hosts: Hosts::new(hosts)?, dir: tempfile::tempdir().unwrap() })
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs `sheen` on a host, without an input from which a question could be answered.
    fn sheen(&self, host: usize, args: &[&str]) -> Output {
        let mut command = self.hosts.command(host, &sheen());
        command
            .args(args)
            .env(RUN_DIR, self.at(&format!("run{host}")))
            .env("SHEEN_KEYS_DIR", self.at(&format!("keys{host}")))
            .stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    fn must(&self, host: usize, args: &[&str]) -> String {
        let output = self.sheen(host, args);
        assert!(output.status.success(), "sheen {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Why it fails: one sentence.
    fn refused(&self, host: usize, args: &[&str]) -> String {
        let output = self.sheen(host, args);
        assert!(!output.status.success(), "sheen {args:?} succeeds: {}", text(&output));
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    fn mgs(&self) -> String {
        format!("{}@tcp:/sheen", self.hosts.address(1))
    }

    fn mount(&self, host: usize) -> PathBuf {
        let at = PathBuf::from(self.at(&format!("mnt{host}")));
        fs::create_dir_all(&at).unwrap();
        at
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for mount in ["mnt2", "mnt3", "fs/mnt"].map(|name| PathBuf::from(self.at(name))) {
            if is_mounted(&mount) {
                detach(&mount);
            }
        }
        self.sheen(1, &["down", &self.at("fs")]);
    }
}

#[test]
fn four_commands_lead_from_two_empty_hosts_to_a_mount_with_keys() {
    if !can_mount() {
        return;
    }
    let Some(site) = Site::new(3) else { return };
    let (home, there) = (site.at("fs"), site.mount(2));
    // The four.
    site.must(1, &["up", &home, "--listen", &site.hosts.address(1)]);
    let token = site.must(1, &["auth", "token", &home]);
    site.must(2, &["auth", "join", &token, "--name", "client2"]);
    site.must(2, &["mount", &site.mgs(), &there.display().to_string()]);

    fs::write(there.join("file"), "from afar").unwrap();
    assert_eq!(fs::read_to_string(PathBuf::from(&home).join("mnt/file")).unwrap(), "from afar");
    let status = site.must(1, &["status", &home]);
    assert!(status.contains("secured: every connection must show a key"), "{status}");
    let list = site.must(1, &["auth", "list", &home]);
    assert!(list.contains("client2") && list.lines().count() == 3, "{list}");

    // A host without a key gets none of it.
    let mount = site.mount(3).display().to_string();
    let said = site.refused(3, &["mount", &site.mgs(), &mount]);
    assert!(said.contains("this cluster is secured, and this host has no key of it"), "{said}");
    // A token is good once, and only whole.
    let said = site.refused(3, &["auth", "join", &token, "--name", "again"]);
    assert!(said.contains("is not known, was used, or has expired"), "{said}");
    let said = site.refused(3, &["auth", "join", &token[..token.len() - 1]]);
    assert!(said.contains("the token is not whole"), "{said}");
    let next = site.must(1, &["auth", "token", &home]);
    let said = site.refused(3, &["auth", "join", &next, "--name", "client2"]);
    assert!(said.contains("there is a key of the name client2 already"), "{said}");
    // That did not count as a use.
    site.must(3, &["auth", "join", &next, "--name", "client3"]);
    site.must(3, &["mount", &site.mgs(), &mount]);
    assert_eq!(fs::read_to_string(site.mount(3).join("file")).unwrap(), "from afar");
    assert_eq!(site.must(1, &["auth", "list", &home]).lines().count(), 4);

    // The MGS starts again: its tokens are those of before.
    let kept = site.must(1, &["auth", "token", &home, "--name", "client9", "--role", "admin"]);
    site.must(1, &["down", &home]);
    site.must(1, &["up", &home]);
    site.must(3, &["auth", "join", &kept]);
    let shown = site.must(3, &["auth", "show"]);
    assert!(shown.contains("admin client9"), "{shown}");
    // A false MGS: another cluster at that address, whose key this token's authority did not sign.
    let token = site.must(1, &["auth", "token", &home]);
    site.must(1, &["down", &home]);
    let other = site.at("other");
    site.must(1, &["up", &other, "--listen", &site.hosts.address(1)]);
    let said = site.refused(2, &["auth", "join", &token, "--name", "x"]);
    assert!(said.contains("its key is of another cluster"), "{said}");
    site.must(1, &["down", &other]);
    site.must(1, &["up", &home]);
}

#[test]
fn a_home_at_loopback_makes_no_keys() {
    if !can_mount() {
        return;
    }
    let Some(site) = Site::new(1) else { return };
    let home = site.at("fs");
    let output = site.sheen(1, &["up", &home]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{home}/mnt"));
    assert!(!PathBuf::from(&home).join("mgt/auth").exists());
    assert!(!PathBuf::from(site.at("keys1")).exists());
    // What ran open does not begin to ask for keys, or to listen to all, by itself.
    site.must(1, &["down", &home]);
    let said = site.sheen(1, &["up", &home, "--listen", &site.hosts.address(1)]);
    assert!(!said.status.success() && text(&said).contains("--security off"), "{}", text(&said));
    site.must(1, &["up", &home, "--listen", &site.hosts.address(1), "--security", "off"]);
}
