//! What `lfs getstripe` is asked to print.

use crate::cli::GetstripeArgs;
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
    /// Only of the component with this number.
    pub(crate) component: Option<u32>,
}

impl Fields {
    /// From the options. -v prints everything.
    pub fn of(args: &GetstripeArgs) -> Fields {
        let letters = [args.stripe_count, args.stripe_size, args.layout, args.generation, args.stripe_index, args.pool];
        let own = [
            (args.fid, Value::Fid),
            (args.mdt_index, Value::MdtIndex),
            (args.mirror_count, Value::Mirrors),
            (args.component_count, Value::Components),
            (matches!(args.component_id, Some(None)), Value::Id),
            (args.component_flags, Value::Flags),
            (args.component_start, Value::Start),
            (args.component_end, Value::End),
            (args.extension_size, Value::Extension),
        ];
        let values: Vec<Value> = own.into_iter().filter(|(asked, _)| *asked).map(|(_, value)| value).collect();
        let chosen = !args.verbose && (letters.contains(&true) || !values.is_empty());
        let [count, size, pattern, generation, offset, pool] = letters.map(|letter| letter || !chosen);
        let (verbose, yaml, quiet, component) = (args.verbose, args.yaml, args.quiet, args.component_id.flatten());
        let hex = args.hex_idx;
        Fields { hex, chosen, count, size, pattern, generation, offset, pool, verbose, yaml, quiet, values, component }
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
        let letters = [self.count, self.size, self.pattern, self.generation, self.offset, self.pool];
        letters.iter().filter(|l| **l).count() + self.values.len() == 1
    }
}
