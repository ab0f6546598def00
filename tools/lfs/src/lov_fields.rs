//! Values that `lfs getstripe` can print.

use crate::cli::GetstripeArgs;
use crate::find::compare::Compare;
use layout::layout::{Component, EOF, Pattern};
use std::str::FromStr;
use types::target::TargetIndex;

/// A value that is printed only if its letter asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// -F: FID of the file.
    Fid,
    /// -m: its MDT.
    MdtIndex,
    /// -N: mirrors.
    Mirrors,
    /// --component-count.
    Components,
    /// -I: number of the component.
    Id,
    /// --component-flags.
    Flags,
    /// --component-start.
    Start,
    /// -E: end of the component.
    End,
    /// -z: bytes by which it extends itself.
    Extension,
}

/// `[+-]N` bytes: there, behind it, before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound(Compare);

/// The same, or `eof`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndBound {
    /// The end of the file.
    Eof,
    /// Somewhere.
    At(Bound),
}

/// Flags that a component has, and with `^` flags that it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagWords(Vec<(String, bool)>);

/// `[^]N`: a mirror, or all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorWord {
    number: u32,
    others: bool,
}

/// Flags that a component may have.
const FLAGS: [&str; 10] = [
    "init",
    "extension",
    "prefer",
    "prefrd",
    "prefwr",
    "stale",
    "offline",
    "nosync",
    "parity",
    "nocompr",
];

impl FromStr for Bound {
    type Err = String;

    fn from_str(s: &str) -> Result<Bound, String> {
        Compare::bytes(s).map(Bound)
    }
}

impl FromStr for EndBound {
    type Err = String;

    fn from_str(s: &str) -> Result<EndBound, String> {
        match s {
            "eof" | "EOF" | "-1" => Ok(EndBound::Eof),
            s => s.parse().map(EndBound::At),
        }
    }
}

impl FromStr for FlagWords {
    type Err = String;

    fn from_str(s: &str) -> Result<FlagWords, String> {
        let word = |word: &str| {
            let (flag, wanted) = word.strip_prefix('^').map_or((word, true), |flag| (flag, false));
            match FLAGS.contains(&flag) {
                true => Ok((flag.to_owned(), wanted)),
                false => Err(format!(
                    "{flag:?} is no flag of a component; there are {}",
                    FLAGS.join(", ")
                )),
            }
        };
        s.split(',').map(word).collect::<Result<_, _>>().map(FlagWords)
    }
}

impl FromStr for MirrorWord {
    type Err = String;

    fn from_str(s: &str) -> Result<MirrorWord, String> {
        let (digits, others) = s.strip_prefix('^').map_or((s, false), |rest| (rest, true));
        let number = digits
            .parse()
            .map_err(|_| format!("{s:?} is no mirror; write a number, or ^ and a number"))?;
        Ok(MirrorWord { number, others })
    }
}

/// The components that are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    id: Option<u32>,
    start: Option<Bound>,
    end: Option<EndBound>,
    flags: Option<FlagWords>,
    no_mirror: bool,
}

impl Filter {
    fn of(args: &GetstripeArgs) -> Filter {
        let is_other =
            |word: Option<MirrorWord>, only| word.is_some_and(|w| (w.number == only) == w.others);
        Filter {
            id: args.component_id.flatten(),
            start: args.component_start.flatten(),
            end: args.component_end.flatten(),
            flags: args.component_flags.clone().flatten(),
            no_mirror: is_other(args.mirror_id, 0) || is_other(args.mirror_index, 1),
        }
    }

    /// True if all components are looked at.
    pub(crate) fn is_open(&self) -> bool {
        *self == Filter::default()
    }

    /// True if this component is. `initialized`: it belongs to a file, and is ready.
    pub(crate) fn passes(&self, c: &Component, initialized: bool) -> bool {
        let has = |flag: &str| match flag {
            "init" => initialized,
            "extension" => c.pattern == Pattern::Extension,
            // No other flag is ever set.
            _ => false,
        };
        !self.no_mirror
            && self.id.is_none_or(|id| c.id == id)
            && self.start.is_none_or(|Bound(at)| at.size(c.start))
            && self.end.is_none_or(|end| match end {
                EndBound::Eof => c.end == EOF,
                EndBound::At(Bound(at)) => at.size(c.end),
            })
            && self
                .flags
                .as_ref()
                .is_none_or(|FlagWords(words)| words.iter().all(|(flag, on)| has(flag) == *on))
    }
}

/// What to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Only what was chosen by letter; else all.
    pub chosen: bool,
    pub(crate) count: bool,
    pub(crate) size: bool,
    pub(crate) pattern: bool,
    pub(crate) generation: bool,
    pub(crate) offset: bool,
    pub(crate) pool: bool,
    /// -v
    pub(crate) verbose: bool,
    /// -y
    pub(crate) yaml: bool,
    /// --hex-idx
    pub(crate) hex: bool,
    /// -q: only rows of objects.
    pub quiet: bool,
    /// The values with letters of their own.
    pub(crate) values: Vec<Value>,
    /// Only of these components.
    pub(crate) filter: Filter,
}

impl Fields {
    /// From the options. -v prints everything.
    pub fn of(args: &GetstripeArgs) -> Fields {
        let letters = [
            args.stripe_count,
            args.stripe_size,
            args.layout,
            args.generation,
            args.stripe_index,
            args.pool,
        ];
        let own = [
            (args.fid, Value::Fid),
            (args.mdt_index, Value::MdtIndex),
            (args.mirror_count, Value::Mirrors),
            (args.component_count, Value::Components),
            (matches!(args.component_id, Some(None)), Value::Id),
            (matches!(args.component_flags, Some(None)), Value::Flags),
            (matches!(args.component_start, Some(None)), Value::Start),
            (matches!(args.component_end, Some(None)), Value::End),
            (args.extension_size, Value::Extension),
        ];
        let values: Vec<Value> =
            own.into_iter().filter(|(asked, _)| *asked).map(|(_, value)| value).collect();
        let chosen = !args.verbose && (letters.contains(&true) || !values.is_empty());
        let [count, size, pattern, generation, offset, pool] =
            letters.map(|letter| letter || !chosen);
        let (verbose, yaml, quiet, filter) =
            (args.verbose, args.yaml, args.quiet, Filter::of(args));
        let hex = args.hex_idx;
        Fields {
            hex,
            chosen,
            count,
            size,
            pattern,
            generation,
            offset,
            pool,
            verbose,
            yaml,
            quiet,
            values,
            filter,
        }
    }

    /// Index of an OST, or -1.
    pub(crate) fn index(&self, ost: Option<TargetIndex>) -> String {
        match ost {
            None => "-1".to_owned(),
            Some(ost) if self.hex => format!("{:#x}", ost.0),
            Some(ost) => ost.0.to_string(),
        }
    }

    /// A value alone needs no label.
    pub(crate) fn is_single(&self) -> bool {
        let letters =
            [self.count, self.size, self.pattern, self.generation, self.offset, self.pool];
        letters.iter().filter(|l| **l).count() + self.values.len() == 1
    }
}
