//! The audit of what was asked: what an MDT writes down once it is answered.

use crate::audit::{Allowance, Asked, Audit, Line, What, is_refusal};
use crate::mds::Mds;
use rpc::service::Export;
use smallvec::SmallVec;
use std::sync::Arc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::object_ticket::ObjectTicket;

impl Mds {
    /// Lines of the audit go there from now on; the first one counts.
    pub fn audit_to(&self, sink: Arc<dyn Audit>) {
        // An error: they go somewhere already.
        let _ = self.audited.sink.set(sink);
    }

    /// An operation of a client of an audited nodemap was answered: with the inode that it found,
    /// or not done.
    pub(crate) fn audit(
        &self,
        export: &Export,
        (claimed, acted): ((u32, u32), &Credentials),
        asked: Asked,
        result: Result<Fid, Errno>,
    ) {
        let refused = result.err();
        let counts = match refused {
            None => asked.changes,
            Some(errno) => is_refusal(errno),
        };
        let Some(sink) = self.audited.sink.get().filter(|_| counts) else { return };
        let now = self.env.clock.now();
        let left_out = {
            let mut allowances = self.audited.allowances.lock();
            let allowance =
                allowances.entry(export.client()).or_insert_with(|| Allowance::new(now));
            allowance.take(now)
        };
        let Some(left_out) = left_out else { return };
        let Asked { operation, fid, names, .. } = asked;
        let acted = (acted.uid, acted.gid);
        let found = result.unwrap_or(Fid::NONE);
        let what = What { operation, claimed, acted, fid, names, found, refused };
        sink.write(self.audit_line(export, Some(what), left_out));
    }

    /// Tickets were asked for: each one that is refused has a line.
    pub(crate) fn audit_tickets(
        &self,
        export: &Export,
        who: ((u32, u32), &Credentials),
        asked: &Asked,
        answers: &[Result<ObjectTicket, Errno>],
    ) {
        for (fid, answer) in asked.files.iter().zip(answers) {
            if let Err(errno) = answer {
                let (names, files) = (SmallVec::new(), Vec::new());
                let one = Asked { fid: *fid, names, files, ..*asked };
                self.audit(export, who, one, Err(*errno));
            }
        }
    }

    /// A session ended.
    pub(crate) fn audit_ends(&self, export: &Export) {
        let allowance = self.audited.allowances.lock().remove(&export.client());
        if let Some(Allowance { left_out: 1.., .. }) = allowance
            && let Some(sink) = self.audited.sink.get()
        {
            let left_out = allowance.map_or(0, |allowance| allowance.left_out);
            sink.write(self.audit_line(export, None, left_out));
        }
    }

    fn audit_line(&self, export: &Export, what: Option<What>, left_out: u64) -> Line {
        let key = export.principal().map(|principal| principal.name.to_string());
        Line {
            at: self.env.clock.wall(),
            target: self.name,
            nid: export.nid().to_string(),
            key: key.unwrap_or_default(),
            client: export.client().brief().to_string(),
            what,
            left_out,
        }
    }
}
