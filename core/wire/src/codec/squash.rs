//! The ids as which callers act, behind the answer to Connect or alone.

use super::cursor::{Reader, Writer, count, len32};
use super::error::DecodeError;
use super::raw::{RawKnown, RawSquash, RawUsers};
use std::sync::Arc;
use types::credentials::{Callers, Ids, KnownUsers, SquashNews};
use types::limits::KNOWN_USERS_MAX;

/// The flags: the nodemap knows only some users; it refuses the others.
pub(super) fn flags(news: &SquashNews) -> [bool; 2] {
    let known = news.callers.known.as_ref();
    [known.is_some(), known.is_some_and(|known| known.denies)]
}

pub(super) fn put(news: &SquashNews, w: &mut Writer) {
    w.put(&RawSquash::new(news.change, news.callers.squash));
    let Some(known) = &news.callers.known else { return };
    w.put(&RawKnown {
        uid: known.others.uid.into(),
        gid: known.others.gid.into(),
        spans: len32(known.users.len()),
        zero: 0.into(),
    });
    for (first, more) in &known.users {
        w.put(&RawUsers { first: (*first).into(), more: (*more).into() });
    }
}

pub(super) fn get(
    [knows, denies]: [bool; 2],
    r: &mut Reader<'_>,
) -> Result<SquashNews, DecodeError> {
    let (change, squash) = r.get::<RawSquash>()?.decode()?;
    if !knows {
        let bad = || DecodeError::Field { field: "known users", value: 0 };
        return if denies { Err(bad()) } else { Ok(SquashNews { change, callers: squash.into() }) };
    }
    let raw: &RawKnown = r.get()?;
    let (others, spans) = (Ids { uid: raw.uid.get(), gid: raw.gid.get() }, raw.spans);
    let users: Vec<(u32, u32)> = r
        .slice_of::<RawUsers>(count(spans, "spans of users", KNOWN_USERS_MAX)?)?
        .iter()
        .map(|raw| (raw.first.get(), raw.more.get()))
        .collect();
    // Searching them relies on their order.
    let ends = |(first, more): &(u32, u32)| first.checked_add(*more);
    let apart = |pair: &[(u32, u32)]| ends(&pair[0]).is_some_and(|last| last < pair[1].0);
    if !users.windows(2).all(apart) || users.last().is_some_and(|last| ends(last).is_none()) {
        return Err(DecodeError::Field { field: "known users", value: users.len() as u64 });
    }
    let known = Some(Arc::new(KnownUsers { users, others, denies }));
    Ok(SquashNews { change, callers: Callers { squash, known } })
}
