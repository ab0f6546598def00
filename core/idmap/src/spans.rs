//! Maps of ids: the ids of a client's users and groups, and those of the file system that they are.
//!
//! A map is a list of spans: `1000-1999:5000` makes the client's 1000 to 1999 the file system's
//! 5000 to 5999. No id stands twice on either side, so each direction is a function. Bound:
//! `types::limits::ID_SPANS_MAX` spans.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use types::limits::ID_SPANS_MAX as SPANS_MAX;

/// The id that the kernel takes for none.
const NO_ID: u32 = u32::MAX;

/// Consecutive ids of a client, and as many of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// The first one of the client.
    client: u32,
    /// The one of the file system that it is.
    fs: u32,
    /// Number of ids, 1 at least.
    count: u32,
}

/// The text is no span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSpan {
    /// It does not have two parts.
    #[error("write CLIENTID:FSID, or FIRST-LAST:FSID for as many consecutive ids")]
    Parts,
    /// A part is no id.
    #[error("an id is a number from 0 to 4294967294")]
    Number,
    /// The last id comes before the first one.
    #[error("the range of the client's ids ends before it begins")]
    Order,
    /// Both sides are ranges, and of different length.
    #[error("the two ranges are not of the same length")]
    Length,
}

/// A span cannot come into a map, or out of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadChange {
    /// An id of the client is another one of the file system already.
    #[error("the client's id {client} is the file system's {fs} already")]
    Client {
        /// The id.
        client: u32,
        /// The one that it is.
        fs: u32,
    },
    /// An id of the file system is that of another one of the client already.
    #[error("the file system's id {fs} is the client's {client} already")]
    Fs {
        /// The id.
        fs: u32,
        /// The one of which it is.
        client: u32,
    },
    /// The map does not have it.
    #[error("{0} is not in the map")]
    Absent(Span),
    /// The map is full.
    #[error("a map has at most {SPANS_MAX} ranges")]
    Full,
}

fn number(text: &str) -> Result<u32, BadSpan> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| digits && *id != NO_ID).ok_or(BadSpan::Number)
}

/// `5`, or `5-9`: the first id and the number of ids.
fn ids(text: &str) -> Result<(u32, u32), BadSpan> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    let beyond = last.checked_sub(first).ok_or(BadSpan::Order)?;
    Ok((first, beyond + 1))
}

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Span, BadSpan> {
        let (client, fs) = text.trim().split_once(':').ok_or(BadSpan::Parts)?;
        let (client, count) = ids(client)?;
        let (fs, fs_count) = if fs.contains('-') { ids(fs)? } else { (number(fs)?, count) };
        if count != fs_count {
            return Err(BadSpan::Length);
        }
        Span::new(client, fs, count).ok_or(BadSpan::Number)
    }
}

/// As it is read again.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}:{}", self.client, self.fs),
            count => write!(f, "{}-{}:{}", self.client, self.client + (count - 1), self.fs),
        }
    }
}

impl Span {
    /// `None`: it has no ids, or goes beyond the last id.
    pub fn new(client: u32, fs: u32, count: u32) -> Option<Span> {
        let ends = [client, fs].map(|first| first.checked_add(count));
        let good = count > 0 && ends.iter().all(|end| end.is_some());
        good.then_some(Span { client, fs, count })
    }

    /// The first id of the client.
    pub fn client(&self) -> u32 {
        self.client
    }

    /// The first id of the file system.
    pub fn fs(&self) -> u32 {
        self.fs
    }

    /// Number of ids.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// True if the client's side has this id.
    pub fn has_client(&self, id: u32) -> bool {
        id.checked_sub(self.client).is_some_and(|beyond| beyond < self.count)
    }

    /// True if the file system's side has this id.
    pub fn has_fs(&self, id: u32) -> bool {
        id.checked_sub(self.fs).is_some_and(|beyond| beyond < self.count)
    }

    /// The part whose ids of the client are in `from..end`.
    fn part(&self, from: u64, end: u64) -> Option<Span> {
        let (first, last) =
            (u64::from(self.client), u64::from(self.client) + u64::from(self.count));
        let (from, end) = (from.max(first), end.min(last));
        let beyond = u32::try_from(from.checked_sub(first)?).ok()?;
        let count = u32::try_from(end.checked_sub(from)?).ok()?;
        Span::new(self.client.checked_add(beyond)?, self.fs.checked_add(beyond)?, count)
    }
}

/// A map of ids. Equal maps have equal spans: they are as long as they can be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdMap {
    /// By id of the client.
    spans: Vec<Span>,
    /// Places in `spans`, by id of the file system.
    by_fs: Vec<u32>,
}

impl Serialize for IdMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.spans.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for IdMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdMap, D::Error> {
        let spans: Vec<Span> = types::bounded::vec(deserializer)?;
        IdMap::of(spans).map_err(serde::de::Error::custom)
    }
}

impl IdMap {
    /// Of these spans.
    ///
    /// # Errors
    /// [`BadChange`]: an id stands twice, or there are too many.
    pub fn of(spans: Vec<Span>) -> Result<IdMap, BadChange> {
        let mut spans = spans;
        if spans.len() > SPANS_MAX {
            return Err(BadChange::Full);
        }
        spans.sort_unstable_by_key(|span| span.client);
        let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            let Some(span) = Span::new(span.client, span.fs, span.count) else {
                return Err(BadChange::Absent(span));
            };
            match merged.last_mut() {
                Some(last) if last.has_client(span.client) => {
                    let fs = last.fs + (span.client - last.client);
                    return Err(BadChange::Client { client: span.client, fs });
                }
                Some(last)
                    if last.client + last.count == span.client
                        && last.fs + last.count == span.fs =>
                {
                    last.count += span.count;
                }
                _ => merged.push(span),
            }
        }
        let mut by_fs: Vec<u32> = (0..merged.len() as u32).collect();
        by_fs.sort_unstable_by_key(|at| merged[*at as usize].fs);
        for pair in by_fs.windows(2) {
            let [before, span] = [pair[0], pair[1]].map(|at| merged[at as usize]);
            if before.has_fs(span.fs) {
                let client = before.client + (span.fs - before.fs);
                return Err(BadChange::Fs { fs: span.fs, client });
            }
        }
        Ok(IdMap { spans: merged, by_fs })
    }

    /// True if it maps nothing.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Its spans, by id of the client; adjacent ones are one.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The file system's id that the client's is.
    pub fn to_fs(&self, client: u32) -> Option<u32> {
        let behind = self.spans.partition_point(|span| span.client <= client);
        let span = self.spans.get(behind.checked_sub(1)?)?;
        span.has_client(client).then(|| span.fs + (client - span.client))
    }

    /// The client's id that is this one of the file system.
    pub fn to_client(&self, fs: u32) -> Option<u32> {
        let span = |at: u32| &self.spans[at as usize];
        let behind = self.by_fs.partition_point(|at| span(*at).fs <= fs);
        let span = span(*self.by_fs.get(behind.checked_sub(1)?)?);
        span.has_fs(fs).then(|| span.client + (fs - span.fs))
    }

    /// With this span, too.
    ///
    /// # Errors
    /// [`BadChange`]. That it has the span already is none.
    pub fn with(&self, span: Span) -> Result<IdMap, BadChange> {
        let (from, end) = bounds(span);
        if self.spans.iter().any(|known| known.part(from, end) == Some(span)) {
            return Ok(self.clone());
        }
        IdMap::of(self.spans.iter().copied().chain([span]).collect())
    }

    /// Without this span, all of which it must have.
    ///
    /// # Errors
    /// [`BadChange::Absent`], [`BadChange::Full`].
    pub fn without(&self, span: Span) -> Result<IdMap, BadChange> {
        let (from, end) = bounds(span);
        let at = self.spans.iter().position(|known| known.part(from, end) == Some(span));
        let at = at.ok_or(BadChange::Absent(span))?;
        let mut spans = self.spans.clone();
        let known = spans.swap_remove(at);
        spans.extend(known.part(0, from).into_iter().chain(known.part(end, u64::MAX)));
        IdMap::of(spans)
    }
}

/// The client's ids of a span: the first one, and the one behind the last one.
fn bounds(span: Span) -> (u64, u64) {
    (span.client.into(), u64::from(span.client) + u64::from(span.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn span(text: &str) -> Span {
        text.parse().unwrap()
    }

    #[test]
    fn spans_are_read_as_they_are_shown() {
        assert_eq!(span(" 1000:5000\n"), Span::new(1000, 5000, 1).unwrap());
        assert_eq!(span("1000-1999:5000"), Span::new(1000, 5000, 1000).unwrap());
        assert_eq!(span("1000-1999:5000-5999"), span("1000-1999:5000"));
        assert_eq!(span("1000-1999:5000").to_string(), "1000-1999:5000");
        for (text, error) in [
            ("", BadSpan::Parts),
            ("1000", BadSpan::Parts),
            ("a:1", BadSpan::Number),
            ("+1:1", BadSpan::Number),
            ("1:4294967295", BadSpan::Number),
            ("1-9:4294967290", BadSpan::Number),
            ("9-1:5", BadSpan::Order),
            ("1-9:5-6", BadSpan::Length),
        ] {
            assert_eq!(text.parse::<Span>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn an_id_stands_once_on_either_side() {
        let map = IdMap::of(vec![span("10-19:110"), span("20-29:120"), span("5:500")]).unwrap();
        assert_eq!(map.spans(), [span("5:500"), span("10-29:110")]);
        assert_eq!(
            [4, 5, 10, 29, 30].map(|id| map.to_fs(id)),
            [None, Some(500), Some(110), Some(129), None]
        );
        assert_eq!(
            [109, 110, 129, 130, 500].map(|id| map.to_client(id)),
            [None, Some(10), Some(29), None, Some(5)]
        );
        assert_eq!(map.with(span("15-16:115")).unwrap(), map, "it has them");
        assert_eq!(map.with(span("15:999")), Err(BadChange::Client { client: 15, fs: 115 }));
        assert_eq!(map.with(span("1-8:900")), Err(BadChange::Client { client: 5, fs: 904 }));
        assert_eq!(map.with(span("99:129")), Err(BadChange::Fs { fs: 129, client: 29 }));
        let less = map.without(span("12-14:112")).unwrap();
        assert_eq!(less.spans(), [span("5:500"), span("10-11:110"), span("15-29:115")]);
        assert_eq!(less.without(span("12:112")), Err(BadChange::Absent(span("12:112"))));
        assert_eq!(less.without(span("15:116")), Err(BadChange::Absent(span("15:116"))));
        let full: Vec<Span> =
            (0..=SPANS_MAX as u32).map(|n| Span::new(2 * n, 2 * n, 1).unwrap()).collect();
        assert_eq!(IdMap::of(full), Err(BadChange::Full));
    }

    proptest! {
        #[test]
        fn a_map_is_what_its_spans_say(
            changes in vec((0..60_u32, 0..60_u32, 1..8_u32, any::<bool>()), 0..40),
        ) {
            let (mut map, mut model) = (IdMap::default(), BTreeMap::<u32, u32>::new());
            for (client, fs, count, adds) in changes {
                let span = Span::new(client, fs, count).unwrap();
                let pairs = || (0..count).map(|n| (client + n, fs + n));
                let has = pairs().all(|(client, fs)| model.get(&client) == Some(&fs));
                let in_the_way = pairs().any(|(client, fs)| {
                    model.contains_key(&client) || model.values().any(|known| *known == fs)
                });
                match (adds, if adds { map.with(span) } else { map.without(span) }) {
                    (true, Ok(now)) => {
                        prop_assert!(has || !in_the_way);
                        model.extend(pairs());
                        map = now;
                    }
                    (true, Err(_)) => prop_assert!(!has && in_the_way),
                    (false, Ok(now)) => {
                        prop_assert!(has);
                        pairs().for_each(|(client, _)| _ = model.remove(&client));
                        map = now;
                    }
                    (false, Err(_)) => prop_assert!(!has),
                }
                for id in 0..70 {
                    prop_assert_eq!(map.to_fs(id), model.get(&id).copied());
                    let client = model.iter().find(|(_, fs)| **fs == id).map(|(client, _)| *client);
                    prop_assert_eq!(map.to_client(id), client);
                }
                let all: Vec<String> = map.spans().iter().map(Span::to_string).collect();
                let again = IdMap::of(all.iter().map(|text| text.parse().unwrap()).collect());
                prop_assert_eq!(again.as_ref(), Ok(&map));
            }
        }
    }
}
