//! Directories below the one that a program uses.

use super::{Held, Program, kind_of, name};
use crate::directories::Changing;
use crate::history::{Call, Kind};
use client::Looked;
use client::caller::Caller;

impl Program {
    /// Locks the directories that a call changes, and last the one that it removes, which it
    /// returns. If another program has that one, this one lets go of all and begins anew, so no two
    /// wait for each other. The kernel orders them: a directory before those in it, and a rename
    /// over a directory above the moved name ends before it locks that. Programs here do not know
    /// what is above what, because other clients move it.
    pub(super) async fn change(&self, call: &Call) -> (Vec<Changing>, Option<Held>) {
        loop {
            let changing = self.directories.change(call.changes()).await;
            let victim = self.victim(call).await;
            // One that is changed anyway is above what moves, and stays.
            let removed = victim.filter(|dir| !call.changes().contains(&dir.ino));
            let Some(Held { node, ino }) = removed else { return (vec![changing], victim) };
            if let Some(last) = self.directories.try_change(ino) {
                return (vec![changing, last], victim);
            }
            drop(changing);
            self.client.forget(node, 1);
            // Each time an operation of the other program ends.
            drop(self.directories.change(vec![ino]).await);
        }
    }

    /// The directory that a call is about to remove: the kernel looks it up, and no program can
    /// make anything in it meanwhile.
    async fn victim(&self, call: &Call) -> Option<Held> {
        let (parent, text) = match call {
            Call::Rmdir { parent, name }
            | Call::Rename { new_parent: parent, new_name: name, .. } => (parent, name),
            _ => return None,
        };
        let node = match self.below.filter(|below| below.ino == *parent) {
            Some(below) => below.node,
            None => self.root.filter(|root| root.ino == *parent)?.node,
        };
        match self.client.clone().lookup_name(Caller::root(), node, name(text)).await {
            Ok(Looked::Found(found)) => {
                let held = Held { node: found.node, ino: found.ino };
                if kind_of(found.attr.file_type()) == Kind::Dir {
                    return Some(held);
                }
                self.client.forget(held.node, 1);
                None
            }
            // The call itself will meet it.
            Ok(Looked::Absent(_)) | Err(_) => None,
        }
    }

    /// A directory in this one, which is made if there is none.
    pub(super) async fn deeper(&mut self, dir: Held, text: &str) -> Option<Held> {
        match self.lookup(dir, text).await {
            Some((below, Kind::Dir)) => Some(below),
            Some((other, _)) => {
                self.client.forget(other.node, 1);
                None
            }
            None => self.make(dir, text, Kind::Dir).await,
        }
    }
}
