//! Directories below the one that a program uses.

use super::{Held, Program, kind_of, name};
use crate::history::{Call, Kind};
use client::Looked;
use client::caller::Caller;
use client::node::NodeId;
use types::fid::Fid;

impl Program {
    /// The directory that a call is about to remove: the kernel looks it up, and no program can
    /// make anything in it meanwhile.
    pub(super) async fn victim(&self, call: &Call) -> Option<Held> {
        let (parent, text) = match call {
            Call::Rmdir { parent, name }
            | Call::Rename { new_parent: parent, new_name: name, .. } => (parent, name),
            _ => return None,
        };
        let node = match self.below.filter(|below| below.ino == *parent) {
            Some(below) => below.node,
            None if *parent == Fid::ROOT.ino() => NodeId::ROOT,
            None => return None,
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
