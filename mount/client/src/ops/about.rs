//! Facts about the mount that the client itself answers, as extended attributes (see
//! [`types::about`]): `lfs` asks for them.

use crate::client::Client;
use rpc::awaited::Requests;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::space::Unanswered;
use types::about::{About, MountLine, SPACE_LINES_MAX, SpaceLine};
use types::attr::Statfs;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::target::{TargetIndex, TargetKind};

impl Client {
    /// Value of one of these attributes on the file `fid`. Space: all targets are asked at once, 1
    /// round trip.
    ///
    /// # Errors
    /// ENODATA: a list of what no client keeps.
    pub(crate) async fn about(
        &self,
        credentials: &Credentials,
        fid: Fid,
        what: About,
    ) -> Result<String, ClientError> {
        match what {
            About::Mount => {
                let uuid = self.session.targets.uuid();
                let line = MountLine {
                    fsname: self.session.fsname(),
                    instance: uuid.0 as u64,
                    uuid: uuid.to_string(),
                };
                Ok(line.to_string())
            }
            About::Fid => Ok(fid.to_string()),
            About::Stats => {
                let (locks, callbacks) = self.lock_counts();
                let Requests { all, awaited, round_trips } = self.requests();
                let of_requests =
                    [("requests", all), ("awaited", awaited), ("round_trips", round_trips)];
                let own = of_requests
                    .into_iter()
                    .chain([("locks", locks as u64), ("callbacks", callbacks)]);
                Ok(own
                    .chain(self.counters.snapshot())
                    .map(|(name, n)| format!("{n} {name}\n"))
                    .collect())
            }
            About::Targets(kind) => {
                let word = |index: &TargetIndex| {
                    if self.is_active(kind, *index) { "" } else { " inactive" }
                };
                Ok(self
                    .indexes(kind)?
                    .iter()
                    .map(|index| format!("{}{}\n", index.0, word(index)))
                    .collect())
            }
            About::DataVersion => Ok(self.data_version(credentials, fid).await?.to_string()),
            // Names are bytes: `links_of` answers.
            About::Links(_) => Err(Errno::EINVAL.into()),
            About::Pools => Ok(self
                .session
                .targets
                .pools()
                .iter()
                .map(|pool| format!("{}\n", pool.name))
                .collect()),
            About::Pool(name) => {
                let found = self
                    .session
                    .targets
                    .pools()
                    .into_iter()
                    .find(|pool| pool.name == name)
                    .ok_or(Errno::ENODATA)?;
                Ok(found.osts.iter().map(|ost| format!("{ost}\n")).collect())
            }
            About::Space(kind, first) => {
                let mut wanted = self.indexes(kind)?;
                wanted.retain(|index| *index >= first);
                wanted.truncate(SPACE_LINES_MAX);
                let asked = wanted.iter().map(|index| self.ask_space(credentials, kind, *index));
                let answers = fan_out(asked.collect()).await;
                let told = |space: Result<Statfs, Unanswered>| {
                    space.map_err(|unanswered| unanswered.errno)
                };
                let lines = wanted.into_iter().zip(answers.into_iter().map(told));
                Ok(lines.map(|(index, space)| SpaceLine { index, space }.to_string()).collect())
            }
        }
    }

    /// Indexes of all targets of a kind, ascending.
    fn indexes(&self, kind: TargetKind) -> Result<Vec<TargetIndex>, ClientError> {
        let mut indexes: Vec<TargetIndex> = match kind {
            TargetKind::Mdt => {
                self.session.targets.mdcs().iter().map(|mdc| mdc.import().target().index).collect()
            }
            TargetKind::Ost => {
                self.session.targets.oscs().iter().map(|osc| osc.import().target().index).collect()
            }
            TargetKind::Mgt => return Err(Errno::ENODATA.into()),
        };
        indexes.sort_unstable();
        Ok(indexes)
    }

    /// Only OSTs can be taken out of use.
    fn is_active(&self, kind: TargetKind, index: TargetIndex) -> bool {
        kind != TargetKind::Ost || self.session.targets.osc(index).is_ok_and(|osc| osc.is_active())
    }
}
