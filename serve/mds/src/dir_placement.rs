//! On which MDTs a new directory goes.

pub(crate) mod spaces;

use crate::mds::{Mds, RequestContext};
use crate::records::tail;
use futures_util::future::join_all;
use layout::placement::{OstSpace, Want, choose};
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::dir_stripes::{DirDefault, DirHash, DirSpec, Levels};
use types::errno::Errno;
use types::limits::DIR_STRIPES_MAX;
use types::target::TargetIndex;
use wire::mds::{Create, CreateKind, MdsReply};

/// How old the known space of MDTs may be.
const SPACE_AGE_MAX: Duration = Duration::from_secs(5);
/// How long another MDT has to tell its space.
const ANSWER: Duration = Duration::from_secs(1);
/// An MDT with so many percent less free space than another one gives directories away.
const FULLER_PERCENT: u64 = 5;

/// The stripes that a directory gets.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Their MDTs, at least two, none twice.
    pub(crate) mdts: &'a [TargetIndex],
    /// How names tell their stripes.
    pub(crate) hash: DirHash,
}

impl Mds {
    /// Makes a directory on the MDTs of choice.
    ///
    /// # Errors
    /// ERANGE: there is no such MDT; E2BIG: more stripes than MDTs; those of mkdir(2).
    pub(crate) async fn placed_mkdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
        spec: &DirSpec,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.parent)?;
        let mdts = self.choose_mdts(spec).await?;
        match mdts[..] {
            [mdt] if mdt == self.name.index => self.mkdir_here(request, op).await,
            [mdt] => self.remote_mkdir(request, op, mdt).await,
            _ => self.striped_mkdir(request, op, Wanted { mdts: &mdts, hash: spec.hash }).await,
        }
    }

    /// Makes a directory where the directory above says.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub(crate) async fn mkdir_by_default(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.parent)?;
        let default = self.read(|records| tail::default_stripes(&records.there(op.parent)?))?;
        match default {
            Some(default) => {
                let spec = self.spec_of(&default).await;
                self.placed_mkdir(request, op, &spec).await
            }
            // It was taken away just now.
            None => self.mkdir_here(request, op).await,
        }
    }

    async fn mkdir_here(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
    ) -> Result<MdsReply, Errno> {
        let kind = CreateKind::Directory { mdt: Some(self.name.index) };
        let op = Create { kind, ..op.clone() };
        self.in_turn(request, |request| self.create(request, &op)).await
    }

    /// What a default means now: no more stripes than there are MDTs, and no MDT that was removed.
    async fn spec_of(&self, default: &DirDefault) -> DirSpec {
        let (all, own) = (self.all_mdts(), self.name.index);
        let DirDefault { count, hash, mdt, by_turns, .. } = *default;
        let count = count.min(all.len() as u16); // at most TARGETS_MAX
        let mdts: Vec<TargetIndex> = mdt.into_iter().filter(|mdt| all.contains(mdt)).collect();
        let any = mdt.is_none() && (by_turns != Levels::None || self.is_fuller(own).await);
        DirSpec { count, hash, mdts, any }
    }

    /// Succeeds if a directory may have this default.
    ///
    /// # Errors
    /// ERANGE: there is no such MDT; E2BIG: more stripes than MDTs.
    pub(crate) fn check_default(&self, default: &DirDefault) -> Result<(), Errno> {
        let all = self.all_mdts();
        if default.mdt.is_some_and(|mdt| !all.contains(&mdt)) {
            return Err(Errno::ERANGE);
        }
        // As many as can be: as many as there are.
        let count = usize::from(default.count);
        if count > all.len() && count < DIR_STRIPES_MAX { Err(Errno::E2BIG) } else { Ok(()) }
    }

    pub(crate) fn all_mdts(&self) -> Vec<TargetIndex> {
        let mut all = self.peers.list();
        all.push(self.name.index);
        all.sort_unstable();
        all
    }

    /// The MDTs of all stripes: those that are named, then others by turns and by space. MDTs that
    /// are full or do not answer come last.
    pub(crate) async fn choose_mdts(&self, spec: &DirSpec) -> Result<Vec<TargetIndex>, Errno> {
        let all = self.all_mdts();
        if spec.mdts.iter().any(|mdt| !all.contains(mdt)) {
            return Err(Errno::ERANGE);
        }
        let stripes = spec.stripes();
        if stripes > all.len() {
            return Err(Errno::E2BIG);
        }
        let mut chosen = spec.mdts.clone();
        if chosen.is_empty() && !spec.any {
            chosen.push(self.name.index);
        }
        if chosen.len() < stripes {
            let mut spaces = self.spaces_of_mdts().await.to_vec();
            spaces.retain(|space| !chosen.contains(&space.index));
            let count = (stripes - chosen.len()) as u16; // at most DIR_STRIPES_MAX
            let want = Want { count, overstriped: false, pool: None, wanted: &[] };
            match choose(&spaces, &want, &mut self.mdt_spaces.rotor.lock()) {
                Ok(more) => chosen.extend(more),
                Err(reason) => tracing::debug!(%reason, "MDTs for a directory"),
            }
        }
        let rest: Vec<TargetIndex> = all.into_iter().filter(|mdt| !chosen.contains(mdt)).collect();
        chosen.extend(rest);
        chosen.truncate(stripes);
        Ok(chosen)
    }

    /// True if an MDT has clearly less free space than another one.
    async fn is_fuller(&self, mdt: TargetIndex) -> bool {
        let spaces = self.spaces_of_mdts().await;
        let most = spaces.iter().filter(|space| space.active).map(|space| space.free).max();
        let own = spaces.iter().find(|space| space.index == mdt).map(|space| space.free);
        let (most, own) = (u128::from(most.unwrap_or(0)), u128::from(own.unwrap_or(0)));
        own * 100 < most * u128::from(100 - FULLER_PERCENT)
    }

    /// Space of all MDTs. Those that are asked answer at once, or count as away: not active, and no
    /// space in all. One that is full, or takes no directories (`no_create`), is not active either.
    pub(crate) async fn spaces_of_mdts(&self) -> Arc<Vec<OstSpace>> {
        let (now, all) = (self.env.clock.now(), self.all_mdts());
        // An MDT that was removed or added since is no longer, or not yet, among them.
        if let Some((at, known)) = &*self.mdt_spaces.known.lock()
            && now.saturating_sub(*at) < SPACE_AGE_MAX
            && known.iter().map(|space| space.index).eq(all.iter().copied())
        {
            return known.clone();
        }
        let who = &Credentials::root();
        let space = |index: TargetIndex| async move {
            let told = match self.peers.get(index) {
                None => self.totals().ok(),
                Some(peer) => tokio::select! {
                    biased;
                    answer = peer.statfs(who) => answer.ok(),
                    () = self.env.clock.sleep(ANSWER) => None,
                },
            };
            match told {
                Some(s) => {
                    let active = s.files_free > 0;
                    OstSpace { index, free: s.bytes_available, total: s.bytes_total, active }
                }
                None => OstSpace { index, free: 0, total: 0, active: false },
            }
        };
        let spaces = Arc::new(join_all(all.into_iter().map(space)).await);
        *self.mdt_spaces.known.lock() = Some((now, spaces.clone()));
        spaces
    }
}
