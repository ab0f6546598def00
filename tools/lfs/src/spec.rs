//! From the options of `setstripe` to the layout that is wished.

use crate::cli::setstripe::Step;
use layout::layout::{ALL_OSTS, Component, EOF, Layout, Pattern, PoolName};
use layout::lov_ea::LovEa;
use layout::stripe_spec::{BadSpec, Defaults, complete};
use std::str::FromStr;
use types::limits::{
    DIR_STRIPES_MAX, DOM_BYTES_MAX, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, STRIPES_MAX, TARGETS_MAX,
};
use types::target::TargetIndex;

/// Number of stripes: 0 for the default, `ALL_OSTS` for -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u16);

/// Bytes of a stripe; 0 for the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSize(pub u32);

/// Bytes per second, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(pub u64);

/// OST of the first stripe, if one is wished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First(pub Option<TargetIndex>);

/// OST of each stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OstList(pub Vec<TargetIndex>);

/// Bytes that a component grows by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionSize(pub u64);

/// End of a component, bytes, exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End(pub u64);

/// Name of a pool, or `none`, `ignore` for no pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolWord(pub PoolName);

/// How the bytes are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternWord(pub Pattern);

/// MDTs of a command: indexes, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdtList(pub Option<Vec<TargetIndex>>);

impl FromStr for Count {
    type Err = String;

    fn from_str(s: &str) -> Result<Count, String> {
        match s.parse::<i64>() {
            Ok(-1) => Ok(Count(ALL_OSTS)),
            Ok(n) if (0..=STRIPES_MAX as i64).contains(&n) => Ok(Count(n as u16)),
            _ => Err(format!("a stripe count is 0 to {STRIPES_MAX}, or -1 for all OSTs")),
        }
    }
}

impl FromStr for MdtList {
    type Err = String;

    fn from_str(text: &str) -> Result<MdtList, String> {
        if text == "-1" {
            return Ok(MdtList(None));
        }
        let mut all = Vec::new();
        for word in text.split(',') {
            let index = word.parse().ok().filter(|index| usize::from(*index) < TARGETS_MAX);
            let index = index.ok_or_else(|| format!("bad MDT index '{word}'"))?;
            if all.contains(&TargetIndex(index)) {
                return Err(format!("MDT index '{word}' is there twice"));
            }
            all.push(TargetIndex(index));
        }
        match all.len() {
            0..=DIR_STRIPES_MAX => Ok(MdtList(Some(all))),
            _ => Err(format!("at most {DIR_STRIPES_MAX} MDTs are possible")),
        }
    }
}

impl FromStr for StripeSize {
    type Err = String;

    fn from_str(s: &str) -> Result<StripeSize, String> {
        let bytes = bytes(s)?;
        if bytes > STRIPE_BYTES_MAX || !bytes.is_multiple_of(STRIPE_BYTES_MIN) {
            return Err(format!(
                "a stripe size is a multiple of {STRIPE_BYTES_MIN}, at most {STRIPE_BYTES_MAX}"
            ));
        }
        Ok(StripeSize(bytes as u32))
    }
}

impl FromStr for ExtensionSize {
    type Err = String;

    fn from_str(s: &str) -> Result<ExtensionSize, String> {
        let bytes = bytes(s)?;
        match Component::extension(1, 0, EOF, bytes) {
            Some(_) => Ok(ExtensionSize(bytes)),
            None => {
                Err(format!("an extension size is a multiple of {STRIPE_BYTES_MIN}, less than 4T"))
            }
        }
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(s: &str) -> Result<Bandwidth, String> {
        match bytes(s)? {
            0 => Err("a bandwidth is at least 1 byte per second".to_owned()),
            rate => Ok(Bandwidth(rate)),
        }
    }
}

impl FromStr for First {
    type Err = String;

    fn from_str(s: &str) -> Result<First, String> {
        if s == "-1" { Ok(First(None)) } else { index(s).map(|ost| First(Some(ost))) }
    }
}

impl FromStr for OstList {
    type Err = String;

    fn from_str(s: &str) -> Result<OstList, String> {
        let mut osts = Vec::new();
        for part in s.split(',') {
            match part.split_once('-') {
                None => osts.push(index(part)?),
                Some((from, to)) => {
                    let (from, to) = (index(from)?.0, index(to)?.0);
                    if from > to {
                        return Err(format!("{part} runs backwards"));
                    }
                    osts.extend((from..=to).take(STRIPES_MAX + 1).map(TargetIndex));
                }
            }
            if osts.len() > STRIPES_MAX {
                return Err(format!("at most {STRIPES_MAX} stripes are possible"));
            }
        }
        Ok(OstList(osts))
    }
}

impl FromStr for End {
    type Err = String;

    fn from_str(s: &str) -> Result<End, String> {
        match s {
            "-1" | "eof" | "EOF" => Ok(End(EOF)),
            s => bytes(s).map(End),
        }
    }
}

impl FromStr for PoolWord {
    type Err = String;

    fn from_str(s: &str) -> Result<PoolWord, String> {
        // FSNAME.POOL is what the pool commands print.
        let name = s.rsplit_once('.').map_or(s, |(_, name)| name);
        let good = PoolName::new(name).map(PoolWord);
        good.ok_or_else(|| {
            format!("{s:?} is no pool name; it has 1 to 15 letters, digits, '_' or '-'")
        })
    }
}

impl FromStr for PatternWord {
    type Err = String;

    fn from_str(s: &str) -> Result<PatternWord, String> {
        match s {
            "raid0" => Ok(PatternWord(Pattern::Raid0)),
            "mdt" => Ok(PatternWord(Pattern::Mdt)),
            _ => Err("a layout is raid0 or mdt".to_owned()),
        }
    }
}

fn index(s: &str) -> Result<TargetIndex, String> {
    let index = s.parse::<u16>().ok().filter(|n| *n != u16::MAX);
    index.map(TargetIndex).ok_or_else(|| format!("{s:?} is no OST index; write a number from 0"))
}

/// A number of bytes, perhaps with a unit of 1024 behind it.
fn bytes(s: &str) -> Result<u64, String> {
    let bad =
        || format!("{s:?} is no size; write a number of bytes or a number with K, M, G, T or P");
    let digits = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let (number, unit) = s.split_at(digits);
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        "p" | "P" => 50,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).ok_or_else(bad)
}

/// One component while it is being described.
#[derive(Clone, Default)]
struct Draft {
    count: Option<Count>,
    overstripe: Option<Count>,
    /// The count is that of the component before.
    inherited: bool,
    size: Option<StripeSize>,
    first: Option<TargetIndex>,
    osts: Vec<TargetIndex>,
    pool: Option<PoolName>,
    on_mdt: bool,
    extension: Option<u64>,
}

impl Draft {
    fn take(&mut self, step: &Step) {
        match step {
            Step::End(_) => {}
            Step::Count(count) => {
                (self.count, self.overstripe, self.inherited) = (Some(*count), None, false)
            }
            Step::Overstripe(count) => {
                (self.count, self.overstripe, self.inherited) = (None, Some(*count), false)
            }
            Step::Size(size) => self.size = Some(*size),
            Step::First(First(first)) => self.first = *first,
            Step::Osts(OstList(osts)) => self.osts.clone_from(osts),
            Step::Pool(PoolWord(pool)) => self.pool = Some(pool.clone()),
            Step::Extension(ExtensionSize(size)) => self.extension = Some(*size),
            Step::Pattern(PatternWord(pattern)) => self.on_mdt = *pattern == Pattern::Mdt,
        }
    }

    /// The values of the next component if no option changes them.
    fn heir(&self) -> Draft {
        let pool = self.pool.clone();
        let (count, overstripe, size) = (self.count, self.overstripe, self.size);
        Draft { count, overstripe, inherited: true, size, pool, ..Draft::default() }
    }

    fn component(self, id: u32, start: u64, end: u64) -> Result<Component, String> {
        if self.on_mdt && (self.first.is_some() || !self.osts.is_empty()) {
            return Err("a component on the MDT has no OSTs".to_owned());
        }
        let overstriped = self.overstripe.is_some();
        let count = self.overstripe.or(self.count).unwrap_or(Count(0)).0;
        if overstriped && count == ALL_OSTS {
            return Err("overstriping (-C) needs a number of stripes".to_owned());
        }
        if !self.osts.is_empty() {
            if count != 0 && !self.inherited && usize::from(count) != self.osts.len() {
                return Err(format!("{} OSTs are named for {count} stripes", self.osts.len()));
            }
            if self.first.is_some_and(|first| first != self.osts[0]) {
                return Err(
                    "the OST of the first stripe (-i) is not the first of the list (-o)".to_owned()
                );
            }
        }
        let stripe_count = if self.osts.is_empty() { count } else { self.osts.len() as u16 };
        let (pattern, stripe_count, stripe_size) = match self.on_mdt {
            true => (Pattern::Mdt, 0, 0),
            false => (Pattern::Raid0, stripe_count, self.size.map_or(0, |s| s.0)),
        };
        let overstriped = overstriped && !self.on_mdt;
        let pool = self.pool.filter(|_| !self.on_mdt);
        let (stripes, wanted) =
            (Vec::new(), if self.osts.is_empty() { Vec::from_iter(self.first) } else { self.osts });
        Ok(Component {
            id,
            start,
            end,
            pattern,
            stripe_size,
            stripe_count,
            overstriped,
            pool,
            stripes,
            wanted,
        })
    }
}

/// The layout that these options wish for; sizes and counts of 0 leave the choice to the file
/// system.
///
/// # Errors
/// One sentence, if the layout is not possible.
pub fn wish(steps: &[Step]) -> Result<LovEa, String> {
    judged(described(steps, 0)?)
}

/// The components that these options add to a file whose layout ends at `start`.
///
/// # Errors
/// One sentence, if they are not possible.
pub fn wish_behind(steps: &[Step], start: u64) -> Result<LovEa, String> {
    let ea = described(steps, start)?;
    if ea.is_on_mdt() {
        return Err("only the first component can be on the MDT".to_owned());
    }
    Ok(ea)
}

fn described(steps: &[Step], start: u64) -> Result<LovEa, String> {
    let (mut drafts, mut draft, mut open) = (Vec::new(), Draft::default(), None);
    for step in steps {
        if let Step::End(End(end)) = step
            && let Some(before) = open.replace(*end)
        {
            let heir = draft.heir();
            drafts.push((before, std::mem::replace(&mut draft, heir)));
        }
        draft.take(step);
    }
    drafts.push((open.unwrap_or(EOF), draft));
    let mut ea = LovEa { layout: Layout::default() };
    let mut start = start;
    for (end, draft) in drafts {
        let size = draft.extension;
        let component = draft.component(ea.layout.components.len() as u32 + 1, start, end)?;
        ea.layout.components.push(component);
        if let Some(size) = size {
            extend(&mut ea, size, open.is_some())?;
        }
        start = end;
    }
    Ok(ea)
}

/// Makes the last component one that grows by `size`. The first of a file covers that much at once;
/// others cover nothing until they are written.
fn extend(ea: &mut LovEa, size: u64, has_end: bool) -> Result<(), String> {
    let id = ea.layout.components.len() as u32 + 1;
    let Some(c) = ea.layout.components.last_mut() else { return Ok(()) };
    if !has_end {
        return Err("only a component can extend itself: -E END -z SIZE".to_owned());
    }
    if c.pattern == Pattern::Mdt {
        return Err("a component on the MDT cannot extend itself".to_owned());
    }
    if size >= c.end.saturating_sub(c.start) {
        return Err(format!("an extension size of {size} is not smaller than its component"));
    }
    let end = std::mem::replace(&mut c.end, if c.start == 0 { size } else { c.start });
    let extension = Component::extension(id, c.end, end, size).ok_or("no extension size")?;
    ea.layout.components.push(extension);
    Ok(())
}

/// The layout again, if it can be. The server has the last word; this one has the better sentence.
///
/// # Errors
/// One sentence.
pub fn judged(ea: LovEa) -> Result<LovEa, String> {
    if ea.layout.components.iter().any(|c| c.pattern == Pattern::Mdt && c.end == EOF) {
        return Err(format!(
            "what is on the MDT must end, at {DOM_BYTES_MAX} bytes at most: -E SIZE -L mdt -E -1"
        ));
    }
    let judged: Result<Layout, BadSpec> = complete(ea.layout.clone(), &Defaults::default());
    judged.map_err(|e| e.to_string())?;
    Ok(ea)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::SetstripeArgs;
    use clap::{Args, FromArgMatches};

    fn parsed(options: &str) -> Result<Vec<Step>, String> {
        let command = SetstripeArgs::augment_args(clap::Command::new("setstripe"));
        let words = ["setstripe"].into_iter().chain(options.split_whitespace()).chain(["x"]);
        let matches = command.try_get_matches_from(words).map_err(|e| e.to_string())?;
        SetstripeArgs::from_arg_matches(&matches).map(|args| args.steps).map_err(|e| e.to_string())
    }

    fn wished(options: &str) -> Result<LovEa, String> {
        wish(&parsed(options)?)
    }

    /// (end, count, size, first) of each component.
    fn components(options: &str) -> Vec<(u64, u16, u32, Option<u16>)> {
        let ea = wished(options).unwrap_or_else(|e| panic!("{options}: {e}"));
        let components = ea.layout.components.iter();
        components
            .map(|c| (c.end, c.stripe_count, c.stripe_size, c.wanted.first().map(|ost| ost.0)))
            .collect()
    }

    /// Each is refused with words of its own.
    fn each_is_refused(wishes: &[(&str, &str)]) {
        for (options, words) in wishes {
            let error = wished(options).unwrap_err();
            assert!(error.contains(words), "{options}: {error}");
        }
    }

    #[test]
    fn a_plain_wish() {
        assert_eq!(components("-c 4 -S 64K -i 2"), [(EOF, 4, 65536, Some(2))]);
        assert_eq!(
            components("--stripe-count=-1 --stripe-size 1m -i -1"),
            [(EOF, ALL_OSTS, 1 << 20, None)]
        );
        assert_eq!(components("-c -1"), [(EOF, ALL_OSTS, 0, None)]);
        assert!(wished("").unwrap().is_default());
        assert!(wished("-c 0 -S 0 -i -1").unwrap().is_default());
        assert!(!wished("-i 0").unwrap().is_default() && wished("-i 0").unwrap().names_osts());
        assert!(wished("-C 5").unwrap().layout.components[0].overstriped);
    }

    #[test]
    fn components_that_extend_themselves_are_pairs() {
        let ea = wished("-E 1G -z 64M -S 1M -E -1 -z 256M").unwrap();
        let pairs: Vec<_> = ea
            .layout
            .components
            .iter()
            .map(|c| (c.id, c.start, c.end, c.extension_size()))
            .collect();
        let (m, g) = (1 << 20, 1 << 30);
        let second = [(3, g, g, None), (4, g, EOF, Some(256 * m))];
        assert_eq!(pairs[..2], [(1, 0, 64 * m, None), (2, 64 * m, g, Some(64 * m))]);
        assert_eq!(pairs[2..], second);
        // A growing component does so alone; its neighbours inherit the rest.
        let ea = wished("-E 128M -c 2 -S 1M -E 1G -z 64M -E -1").unwrap();
        assert_eq!(
            ea.layout.components.iter().map(|c| c.stripe_count).collect::<Vec<_>>(),
            [2, 2, 0, 2]
        );
        each_is_refused(&[
            ("-z 64M", "-E END"),
            ("-E 64M -z 64M -E -1", "not smaller"),
            ("-E 1G -z 100K", "multiple of 65536"),
            ("-E 1G -z 0", "multiple of 65536"),
            ("-E -1 -z 4T", "less than 4T"),
            ("-E 1G -S 4M -z 1M", "multiple of 4194304"),
            ("-E 64K -L mdt -z 64K -E -1", "on the MDT"),
        ]);
    }

    #[test]
    fn components_can_be_wished_for_behind_those_of_a_file() {
        let behind = |options: &str| wish_behind(&parsed(options).unwrap(), 1 << 30);
        let ea = behind("-E 2G -z 64M -E -1 -c 4").unwrap();
        let starts: Vec<_> = ea.layout.components.iter().map(|c| (c.start, c.end)).collect();
        assert_eq!(starts, [(1 << 30, 1 << 30), (1 << 30, 2 << 30), (2 << 30, EOF)]);
        assert_eq!(behind("-E -1 -i 1").unwrap().layout.components[0].wanted, [TargetIndex(1)]);
        assert!(behind("-E 2G -L mdt").unwrap_err().contains("first component"));
    }

    #[test]
    fn osts_by_name() {
        let ea = wished("-o 0,3,5-7").unwrap();
        let c = &ea.layout.components[0];
        assert_eq!(c.wanted.iter().map(|o| o.0).collect::<Vec<_>>(), [0, 3, 5, 6, 7]);
        assert_eq!(c.stripe_count, 5);
        assert!(ea.names_osts());
        assert_eq!(wished("-o 1,1 -C 2").unwrap().layout.components[0].wanted.len(), 2);
        each_is_refused(&[
            ("-o 1,1", "twice"),
            ("-o 1,2 -c 3", "3 stripes"),
            ("-o 1,2 -i 2", "-i"),
            ("-o 5-3", "backwards"),
            ("-o 0-65534", "2000"),
            ("-o", "x"),
            ("-o 1,,2", "no OST index"),
        ]);
    }

    #[test]
    fn a_pool_is_inherited_by_later_components() {
        let ea = wished("-E 1M -p sheen.flash -E 1G -E -1 -p none").unwrap();
        let names: Vec<_> =
            ea.layout.components.iter().map(|c| c.pool.as_ref().map(|p| &*p.0)).collect();
        assert_eq!(names, [Some("flash"), Some("flash"), Some("none")]);
        assert_eq!(ea.pools().len(), 1);
        assert!(!wished("-p flash").unwrap().is_default());
        assert!(wished("-p much-too-long-for-it").unwrap_err().contains("no pool name"));
        assert!(wished("-p a/b").unwrap_err().contains("no pool name"));
    }

    #[test]
    fn options_belong_to_the_end_before_them_and_are_inherited() {
        let three = components("-E 64M -c 1 -S 1M -E 1G -c 4 -E -1 -S 4M");
        assert_eq!(
            three,
            [(64 << 20, 1, 1 << 20, None), (1 << 30, 4, 1 << 20, None), (EOF, 4, 4 << 20, None)]
        );
        assert_eq!(components("-c 2 -E 1M -E eof")[1], (EOF, 2, 0, None));
        assert_eq!(components("-E 1M -c 2").len(), 1);
        // Each component may name OSTs, and no other inherits them.
        let named = components("-E 1M -i 1 -E 1G -E -1 -c 2 -i 3");
        assert_eq!(named.iter().map(|c| c.3).collect::<Vec<_>>(), [Some(1), None, Some(3)]);
        let listed = wished("-E 1M -c 1 -E -1 -o 2,0").unwrap();
        assert_eq!(listed.layout.components[1].wanted, [TargetIndex(2), TargetIndex(0)]);
        let dom = wished("-E 64K -L mdt -E -1 -c 2").unwrap();
        assert_eq!(dom.layout.components[0].pattern, Pattern::Mdt);
        assert_eq!(dom.layout.components[1].pattern, Pattern::Raid0);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        each_is_refused(&[
            ("-c 2001", "0 to 2000"),
            ("-c -2", "0 to 2000"),
            ("-S 1000", "65536"),
            ("-S 4G", "65536"),
            ("-S lots", "no size"),
            ("-i 65535", "no OST index"),
            ("-E 1M -E 1M", "empty"),
            ("-E -1 -c 1 -E 1M", "empty"),
            ("-E 100K", "65536"),
            ("-L mdt", "MDT"),
            ("-E 64K -L mdt -i 1", "MDT"),
            ("-L tape", "raid0 or mdt"),
            ("--overstripe-count=-1", "number of stripes"),
            ("-d -c 2", "cannot be used with"),
        ]);
    }

    #[test]
    fn mdts_are_indexes_or_any() {
        let all = |text: &str| text.parse::<MdtList>();
        assert_eq!(all("-1"), Ok(MdtList(None)));
        let two = vec![TargetIndex(2), TargetIndex(0)];
        assert_eq!(all("2,0"), Ok(MdtList(Some(two))));
        assert_eq!(all("1,1"), Err("MDT index '1' is there twice".to_owned()));
        for bad in ["", "x", "-2", "0,-1", "70000", "0,,1"] {
            assert!(all(bad).unwrap_err().starts_with("bad MDT index"), "{bad}");
        }
    }
}
