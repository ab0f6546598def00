//! Reactions of the parts of a mount to events of its sessions.

use crate::open::OpenFiles;
use crate::reopen::{Restorer, reopen_all};
use crate::uncommitted::lost_objects;
use data::cache::DataTarget;
use data::cache::grant::Grants;
use data::file::{File, FileTable};
use data::locks::callback::CallbackHandler;
use data::locks::data_guards::Loss;
use data::locks::{Locks, MdtWatch};
use rpc::callbacks::Callbacks;
use rpc::import::hooks::Restore;
use session::hooks::{FileUser, Hooks};
use std::collections::BTreeSet;
use std::sync::Arc;
use stubs::mdc::{Mdc, Watch};
use types::fid::Fid;
use types::target::TargetIndex;
use wire::message::Op;

/// The tables of one mount that hold the grants of its targets.
pub(crate) struct Tables {
    pub(crate) locks: Arc<Locks>,
    pub(crate) files: Arc<FileTable>,
    pub(crate) files_open: Arc<OpenFiles>,
    pub(crate) grants: Arc<Grants>,
}

impl Hooks for Tables {
    fn callbacks(&self) -> Arc<dyn Callbacks> {
        Arc::new(CallbackHandler { locks: self.locks.clone() })
    }

    fn watch(&self, mdt: TargetIndex) -> Arc<dyn Watch> {
        Arc::new(MdtWatch { locks: self.locks.clone(), mdt: mdt.0 })
    }

    fn restore(&self, mdc: &Mdc) -> Arc<dyn Restore> {
        Arc::new(Restorer::new(self.locks.clone(), self.files_open.clone(), mdc))
    }

    fn mdt_lost(&self, mdt: TargetIndex, evicted: bool) {
        self.grants.lost(DataTarget::Mdt(mdt));
        self.locks.lose(mdt.0, if evicted { Loss::Eviction } else { Loss::Restart });
    }

    fn mdt_back(&self, mdc: Mdc) {
        let reopen = reopen_all(self.files_open.clone(), mdc);
        self.locks.env.tasks.spawn("open files again", Box::pin(reopen));
    }

    fn squash_changed(&self) {
        if let Some(kernel) = self.locks.kernel.get() {
            let forget = kernel.inc_epoch();
            self.locks.env.tasks.spawn("names are looked up anew", forget);
        }
    }

    fn files_in_use(&self) -> BTreeSet<Fid> {
        self.files.all_used().iter().map(|file| file.fid).collect()
    }

    fn named(&self, file: Fid) -> Fid {
        let layout = self.files.get_used(file).and_then(|file| file.layout());
        layout.map_or(file, |layout| layout.names(file))
    }

    fn users_of(&self, named: Fid) -> Vec<FileUser> {
        let is_named = |file: &File| {
            file.fid == named || file.layout().is_some_and(|layout| layout.names(file.fid) == named)
        };
        let open = self.files_open.at_server().into_iter().filter(|open| is_named(&open.file));
        let mut users: Vec<FileUser> = open
            .map(|open| FileUser { file: open.file.fid, credentials: open.credentials.clone() })
            .collect();
        // Closed, and not stored yet.
        for file in self.files.all_used().into_iter().filter(|file| is_named(file)) {
            let dirty = file.dirty.lock();
            if !dirty.is_clean() {
                let credentials = dirty.writer.0.clone();
                users.push(FileUser { file: file.fid, credentials });
            }
        }
        users
    }

    fn ost_lost(&self, ost: TargetIndex) {
        self.grants.lost(DataTarget::Ost(ost));
    }

    fn objects_lost(&self, lost: &[Op]) {
        lost_objects(&self.files, &self.files_open, lost);
    }
}
