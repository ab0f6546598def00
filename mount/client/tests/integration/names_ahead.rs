//! Names of directories that are listed because programs look for what does not exist.

use crate::rig::{Rig, simulated};
use client::Looked;
use types::fid::Fid;
use types::lock::InodeBits;

impl Rig {
    /// What is asked to find that there is no such name.
    async fn asked_for_absent(&self, text: &str) -> Vec<String> {
        self.cluster.asked();
        let looked = self.lookup(text).await;
        assert!(matches!(looked, Looked::Absent(_)), "{text}: {looked:?}");
        self.settle().await;
        self.cluster.asked()
    }
}

const LISTED: [&str; 2] = ["Readdir", "GetParent"];

#[test]
fn after_a_name_that_does_not_exist_the_next_lookup_lists_the_directory() {
    simulated(|rig| async move {
        let made = rig.file("made", b"").await;
        rig.revoked(Fid::ROOT, InodeBits::UPDATE).await;
        assert_eq!(rig.asked_for_absent("a").await, ["Lookup"]);
        assert_eq!(rig.asked_for_absent("b").await, LISTED);
        assert_eq!(rig.asked_for_absent("c").await, [""; 0], "all names are known");
        rig.file("c", b"").await;
        assert_eq!(rig.asked_for_absent("d").await, [""; 0], "also after a change of its own");
        let looked = rig.lookup("made").await;
        assert!(matches!(looked, Looked::Found(found) if found.attr.fid == made.attr.fid));
    });
}

#[test]
fn a_directory_that_others_change_is_listed_ever_more_rarely() {
    simulated(|rig| async move {
        let mut listed = Vec::new();
        for n in 1..=40 {
            rig.revoked(Fid::ROOT, InodeBits::UPDATE).await;
            if rig.asked_for_absent(&format!("name{n}")).await == LISTED {
                listed.push(n);
            }
        }
        assert_eq!(listed, [2, 4, 7, 12, 21, 38]);
    });
}

#[test]
fn without_statahead_nothing_is_listed_ahead() {
    simulated(|rig| async move {
        rig.client().set_statahead_max(0);
        for name in ["a", "b", "c"] {
            assert_eq!(rig.asked_for_absent(name).await, ["Lookup"]);
        }
    });
}
