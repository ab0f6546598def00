//! Layouts as `lfs getstripe` prints them.

use crate::lov_fields::{Fields, Value};
use crate::yaml;
use layout::layout::{ALL_OSTS, Component, EOF, Pattern, PoolName};
use layout::lov_ea::{
    LovEa, LovEaError, composite_magic, decode_of_file, encode, magic, object_fid,
};
use std::fmt::Write;
use types::fid::Fid;

/// A layout, and the file or directory that it belongs to.
pub struct Subject {
    ea: LovEa,
    fid: Fid,
    directory: bool,
}

/// Place of one component in the text.
struct Place<'a> {
    indent: &'a str,
    generation: u32,
}

impl Subject {
    /// From the value of `lustre.lov`.
    ///
    /// # Errors
    /// The bytes are no known layout.
    pub fn read(bytes: Vec<u8>, directory: bool) -> Result<Subject, LovEaError> {
        let (ea, fid) = decode_of_file(&bytes)?;
        Ok(Subject { ea, fid, directory })
    }

    /// The same with this FID: a default layout does not hold the FID of its directory.
    #[must_use]
    pub fn of(self, fid: Fid) -> Subject {
        Subject { fid, ..self }
    }

    /// True if it has an object on one of these OSTs.
    pub fn is_on(&self, osts: &[u16]) -> bool {
        self.ea.layout.components.iter().flat_map(|c| &c.stripes).any(|ost| osts.contains(&ost.0))
    }

    /// All lines.
    pub fn text(&self, fields: &Fields) -> String {
        let mut text = String::new();
        let layout = &self.ea.layout;
        match &layout.components[..] {
            [] => {}
            _ if fields.yaml && !fields.chosen => text.push_str(&yaml::text(&self.ea, self.fid)),
            components if fields.quiet => {
                let shown = components.iter().filter(|c| self.passes(fields, c));
                shown.for_each(|c| self.objects_only(&mut text, fields, c));
            }
            components if fields.chosen => self.values(&mut text, fields, components),
            [one] if layout.is_plain() => {
                let place = Place { indent: "", generation: layout.generation };
                if fields.verbose {
                    self.names(&mut text, one, "");
                }
                self.header(&mut text, fields, one, &place);
                if !self.directory {
                    self.rows(&mut text, fields, one);
                }
                wanted(&mut text, fields, one);
                text.push('\n');
            }
            components => self.composite(&mut text, fields, components),
        }
        text
    }

    fn header(&self, text: &mut String, fields: &Fields, c: &Component, place: &Place<'_>) {
        let on_mdt = c.pattern == Pattern::Mdt;
        let mut items: Vec<(&str, String)> = Vec::new();
        if fields.count {
            items.push(("stripe_count:  ", count(c.stripe_count)));
        }
        if fields.size {
            items.push(match c.extension_size() {
                None => ("stripe_size:   ", c.stripe_size.to_string()),
                Some(size) => ("extension_size: ", size.to_string()),
            });
        }
        if fields.pattern {
            items.push(("pattern:       ", pattern(c).to_owned()));
        }
        // A default layout has no history.
        if fields.generation && (!self.directory || fields.is_single()) {
            items.push(("layout_gen:    ", place.generation.to_string()));
        }
        if fields.offset {
            match on_mdt && !self.directory {
                true => items.push(("mdt_index:     ", self.fid.mdt().to_string())),
                false => items.push((
                    "stripe_offset: ",
                    fields.index(c.stripes.first().or(c.wanted.first()).copied()),
                )),
            }
        }
        if let (true, Some(PoolName(pool))) = (fields.pool, &c.pool) {
            items.push((if self.directory { "pool: " } else { "pool:          " }, pool.clone()));
        }
        if items.is_empty() {
            return;
        }
        let (kind, between) = if self.directory { ("", " ") } else { ("lmm_", "\n") };
        let lines = items.into_iter().map(|(label, value)| match fields.is_single() {
            true => value,
            false => format!("{}{kind}{label}{value}", place.indent),
        });
        text.push_str(&lines.collect::<Vec<_>>().join(between));
        text.push('\n');
    }

    /// Only rows of objects, as -q wants them.
    fn objects_only(&self, text: &mut String, fields: &Fields, c: &Component) {
        match self.ea.layout.is_plain() {
            true => self.plain_rows(text, fields, c),
            false => self.component_rows(text, fields, c),
        }
    }

    /// Values that were chosen by letter, of the layout or of one component: a value alone needs no
    /// label.
    fn values(&self, text: &mut String, fields: &Fields, components: &[Component]) {
        let chosen = match fields.filter.is_open() {
            false => {
                // As with -I, one is told apart from the next by the value that was asked for.
                return components
                    .iter()
                    .filter(|c| self.passes(fields, c))
                    .for_each(|c| self.value_lines(text, fields, c));
            }
            true if fields.values[..] == [Value::Extension] && fields.is_single() => {
                components.iter().find(|c| c.pattern == Pattern::Extension).or(components.last())
            }
            true => components.iter().rfind(|c| c.is_instantiated()).or(components.last()),
        };
        chosen.into_iter().for_each(|c| self.value_lines(text, fields, c));
    }

    fn passes(&self, fields: &Fields, c: &Component) -> bool {
        self.ea.layout.is_plain() || fields.filter.passes(c, self.flags(c, true) == "init")
    }

    fn value_lines(&self, text: &mut String, fields: &Fields, c: &Component) {
        for (label, value) in fields.values.iter().map(|value| self.value(*value, c)) {
            match fields.is_single() {
                true => line(text, format_args!("{value}")),
                false => line(text, format_args!("{label}{value}")),
            }
        }
        self.header(text, fields, c, &Place { indent: "", generation: self.ea.layout.generation });
    }

    fn value(&self, value: Value, c: &Component) -> (&'static str, String) {
        let layout = &self.ea.layout;
        let composite = !layout.is_plain();
        let (entries, id) = if composite { (layout.components.len(), c.id) } else { (0, 0) };
        match value {
            Value::Fid => ("lmm_fid:           ", self.fid.to_string()),
            Value::MdtIndex => ("lmm_mdt_index:     ", self.fid.mdt().to_string()),
            Value::Mirrors => ("lcm_mirror_count:  ", "1".to_owned()),
            Value::Components => ("lcm_entry_count:   ", entries.to_string()),
            Value::Id => ("lcme_id:             ", id.to_string()),
            Value::Flags => ("lcme_flags:          ", self.flags(c, composite).to_owned()),
            Value::Start => ("lcme_extent.e_start: ", c.start.to_string()),
            Value::End => ("lcme_extent.e_end:   ", end(c)),
            Value::Extension => {
                ("lmm_extension_size: ", c.extension_size().unwrap_or(0).to_string())
            }
        }
    }

    fn flags(&self, c: &Component, composite: bool) -> &'static str {
        if c.pattern == Pattern::Extension {
            return "extension";
        }
        // The form marks a component on the MDT as ready even in a default layout.
        if composite && c.is_instantiated() && !self.directory { "init" } else { "0" }
    }

    /// The lines that -v adds.
    fn names(&self, text: &mut String, c: &Component, indent: &str) {
        line(text, format_args!("{indent}lmm_magic:         0x{:08X}", magic(c)));
        line(text, format_args!("{indent}lmm_seq:           {:#x}", self.fid.seq));
        line(text, format_args!("{indent}lmm_object_id:     {:#x}", self.fid.oid));
        line(text, format_args!("{indent}lmm_fid:           {}", self.fid));
    }

    /// Objects of a plain file.
    fn rows(&self, text: &mut String, fields: &Fields, c: &Component) {
        if c.stripes.is_empty() {
            return;
        }
        line(text, format_args!("\tobdidx\t\t objid\t\t objid\t\t group"));
        self.plain_rows(text, fields, c);
    }

    fn plain_rows(&self, text: &mut String, fields: &Fields, c: &Component) {
        for (stripe, ost) in (0u32..).zip(&c.stripes) {
            let object = object_fid(self.ea.layout.names(self.fid), c.id, stripe);
            let (id, hex, group) =
                (object.oid, format!("{:#x}", object.oid), format!("{:#x}", object.seq));
            line(
                text,
                format_args!("\t{:>6}\t{id:14}\t{hex:>13}\t{group:>14}", fields.index(Some(*ost))),
            );
        }
    }

    fn composite(&self, text: &mut String, fields: &Fields, components: &[Component]) {
        // Sizes and places are those of the value, which is the same when it is encoded again.
        let value = encode(&self.ea.layout, self.fid);
        if fields.verbose {
            let size = value.len();
            line(text, format_args!("composite_header:"));
            line(
                text,
                format_args!("  lcm_magic:         0x{:08X}", composite_magic(&self.ea.layout)),
            );
            line(text, format_args!("  lcm_size:          {size}"));
            line(text, format_args!("  lcm_flags:         0"));
        }
        line(text, format_args!("  lcm_layout_gen:    {}", self.ea.layout.generation));
        line(text, format_args!("  lcm_mirror_count:  1"));
        line(text, format_args!("  lcm_entry_count:   {}", components.len()));
        if fields.verbose {
            line(text, format_args!("components:"));
        }
        let wanted = |(c, _): &(&Component, _)| self.passes(fields, c);
        for (c, blob) in components.iter().zip(blobs(&value)).filter(wanted) {
            self.component(text, fields, c, blob);
            text.push('\n');
        }
    }

    fn component(
        &self,
        text: &mut String,
        fields: &Fields,
        c: &Component,
        (start, len): (u32, u32),
    ) {
        let known = |n: u32| if self.directory { "N/A".to_owned() } else { n.to_string() };
        let dash = if fields.verbose { "  - " } else { "    " };
        line(text, format_args!("{dash}lcme_id:             {}", known(c.id)));
        line(text, format_args!("    lcme_mirror_id:      {}", known(0)));
        line(text, format_args!("    lcme_flags:          {}", self.flags(c, true)));
        line(text, format_args!("    lcme_extent.e_start: {}", c.start));
        line(text, format_args!("    lcme_extent.e_end:   {}", end(c)));
        if fields.verbose {
            line(text, format_args!("    lcme_offset:         {start}"));
            line(text, format_args!("    lcme_size:           {len}"));
            line(text, format_args!("    sub_layout:"));
            self.names(text, c, "      ");
        }
        self.header(text, fields, c, &Place { indent: "      ", generation: 0 });
        wanted(text, fields, c);
        if self.directory || c.stripes.is_empty() {
            return;
        }
        line(text, format_args!("      lmm_objects:"));
        self.component_rows(text, fields, c);
    }

    fn component_rows(&self, text: &mut String, fields: &Fields, c: &Component) {
        for (stripe, ost) in (0u32..).zip(&c.stripes) {
            let object = object_fid(self.ea.layout.names(self.fid), c.id, stripe);
            line(
                text,
                format_args!(
                    "      - {stripe:3}: {{ l_ost_idx: {:>3}, l_fid: {object} }}",
                    fields.index(Some(*ost))
                ),
            );
        }
    }
}

/// OSTs that a component shall get, if more than the first is named: objects that are still to be
/// made.
fn wanted(text: &mut String, fields: &Fields, c: &Component) {
    if c.wanted.len() < 2 {
        return;
    }
    line(text, format_args!("      lmm_objects:"));
    for (stripe, ost) in c.wanted.iter().enumerate() {
        let index = fields.index(Some(*ost));
        line(
            text,
            format_args!("      - {stripe:3}: {{ l_ost_idx: {index:>3}, l_fid: [0x0:0x0:0x0] }}"),
        );
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to memory");
}

fn count(n: u16) -> String {
    if n == ALL_OSTS { "-1".to_owned() } else { n.to_string() }
}

/// Places of the components of a composite value: (offset, size). Header 32 bytes, entries 48,
/// these at 24 of each.
fn blobs(value: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let word = |entry: &[u8], at: usize| {
        u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
    };
    value[32..].chunks_exact(48).map(move |entry| (word(entry, 24), word(entry, 28)))
}

fn pattern(c: &Component) -> &'static str {
    match (c.pattern, c.overstriped) {
        (Pattern::Mdt, _) => "mdt",
        (Pattern::Raid0, false) | (Pattern::Extension, _) => "raid0",
        (Pattern::Raid0, true) => "raid0,overstriped",
    }
}

fn end(c: &Component) -> String {
    if c.end == EOF { "EOF".to_owned() } else { c.end.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::GetstripeArgs;
    use layout::layout::Layout;
    use layout::lov_ea::encode_spec;
    use layout::stripe_spec::plain;
    use types::target::TargetIndex;

    const FID: Fid = Fid { seq: 0x2_8000_0401, oid: 2, ver: 0 };

    fn striped(osts: &[u16]) -> Layout {
        let mut layout = plain(osts.len() as u16, 4 << 20, None);
        layout.components[0].stripes = osts.iter().map(|ost| TargetIndex(*ost)).collect();
        layout
    }

    fn pfl() -> Layout {
        let mut layout = striped(&[1]);
        layout.generation = 3;
        let rest = Component {
            id: 2,
            start: 1 << 20,
            stripes: Vec::new(),
            ..layout.components[0].clone()
        };
        layout.components[0].end = 1 << 20;
        layout.components.push(rest);
        layout
    }

    fn args(letters: &str) -> GetstripeArgs {
        let has = |letter| letters.contains(letter);
        GetstripeArgs {
            stripe_count: has('c'),
            stripe_index: has('i'),
            stripe_size: has('S'),
            pool: has('p'),
            layout: has('L'),
            generation: has('g'),
            fid: has('F'),
            mdt_index: has('m'),
            mirror_count: has('N'),
            component_id: has('I').then_some(None),
            component_end: has('E').then_some(None),
            component_start: has('s').then_some(None),
            component_count: has('n'),
            component_flags: has('f').then_some(None),
            quiet: has('q'),
            verbose: has('v'),
            ..GetstripeArgs::default()
        }
    }

    fn shown(layout: &Layout, directory: bool, letters: &str) -> String {
        let fid = if directory { Fid::NONE } else { FID };
        Subject::read(encode(layout, fid), directory).unwrap().text(&Fields::of(&args(letters)))
    }

    #[test]
    fn a_plain_file() {
        let mut layout = striped(&[1, 0]);
        layout.components[0].pool = PoolName::new("mypool");
        let expected = "\
lmm_stripe_count:  2
lmm_stripe_size:   4194304
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 1
lmm_pool:          mypool
\tobdidx\t\t objid\t\t objid\t\t group
\t     1\t             2\t          0x2\t   0x280000401
\t     0\t             2\t          0x2\t   0x280000401

";
        assert_eq!(shown(&layout, false, ""), expected);
        let names = "\
lmm_magic:         0x0BD30BD0
lmm_seq:           0x280000401
lmm_object_id:     0x2
lmm_fid:           [0x280000401:0x2:0x0]
";
        assert_eq!(shown(&layout, false, "v"), format!("{names}{expected}"));
    }

    #[test]
    fn a_default_layout_is_one_line() {
        let one = "stripe_count:  1 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1";
        assert_eq!(shown(&plain(1, 4 << 20, None), true, ""), format!("{one}\n\n"));
        let pool = shown(&plain(1, 4 << 20, PoolName::new("p")), true, "");
        assert_eq!(pool, format!("{one} pool: p\n\n"));
        assert_eq!(shown(&plain(ALL_OSTS, 4 << 20, None), true, "c"), "-1\n");
    }

    #[test]
    fn a_value_alone_has_no_label() {
        let layout = striped(&[5, 7]);
        for (letter, value) in [
            ("c", "2\n"),
            ("S", "4194304\n"),
            ("i", "5\n"),
            ("L", "raid0\n"),
            ("g", "0\n"),
            ("p", ""),
        ] {
            assert_eq!(shown(&layout, false, letter), value, "{letter}");
        }
        assert_eq!(shown(&layout, false, "ci"), "lmm_stripe_count:  2\nlmm_stripe_offset: 5\n");
        let mut wide = layout;
        wide.components[0].overstriped = true;
        assert_eq!(shown(&wide, false, "L"), "raid0,overstriped\n");
    }

    #[test]
    fn of_components_the_last_with_objects_counts() {
        assert_eq!(shown(&pfl(), false, "i"), "1\n");
        assert_eq!(shown(&pfl(), false, "g"), "3\n");
        assert_eq!(shown(&pfl(), true, "S"), "4194304\n");
    }

    #[test]
    fn values_of_the_file_and_of_components() {
        for (letter, of_plain, of_components) in [
            ("F", "[0x280000401:0x2:0x0]\n", "[0x280000401:0x2:0x0]\n"),
            ("m", "2\n", "2\n"),
            ("N", "1\n", "1\n"),
            ("n", "0\n", "2\n"),
            ("I", "0\n", "1\n"),
            ("s", "0\n", "0\n"),
            ("E", "EOF\n", "1048576\n"),
            ("f", "0\n", "init\n"),
            (
                "nE",
                "lcm_entry_count:   0\nlcme_extent.e_end:   EOF\n",
                "lcm_entry_count:   2\nlcme_extent.e_end:   1048576\n",
            ),
            (
                "cI",
                "lcme_id:             0\nlmm_stripe_count:  1\n",
                "lcme_id:             1\nlmm_stripe_count:  1\n",
            ),
        ] {
            assert_eq!(shown(&striped(&[5]), false, letter), of_plain, "{letter}");
            assert_eq!(shown(&pfl(), false, letter), of_components, "{letter}");
        }
        let of = |id| Fields::of(&GetstripeArgs { component_id: Some(Some(id)), ..args("") });
        let text = |id| Subject::read(encode(&pfl(), FID), false).unwrap().text(&of(id));
        assert!(
            text(2).contains("lcme_id:             2\n")
                && !text(2).contains("lcme_id:             1\n")
        );
        assert!(!text(7).contains("lcme_id"));
    }

    #[test]
    fn indexes_may_be_hexadecimal_and_files_are_known_by_their_osts() {
        let text = |layout: &Layout| {
            let args = GetstripeArgs { hex_idx: true, ..args("") };
            Subject::read(encode(layout, FID), false).unwrap().text(&Fields::of(&args))
        };
        let plain = text(&striped(&[26, 0]));
        assert!(
            plain.contains("lmm_stripe_offset: 0x1a\n")
                && plain.contains("\t  0x1a\t")
                && plain.contains("\t   0x0\t")
        );
        assert!(text(&pfl()).contains("l_ost_idx: 0x1,"));
        let subject = Subject::read(encode(&striped(&[26, 0]), FID), false).unwrap();
        assert!(subject.is_on(&[7, 26]) && !subject.is_on(&[7]) && !subject.is_on(&[]));
    }

    #[test]
    fn quiet_is_rows_of_objects() {
        let row = "\t     5\t             2\t          0x2\t   0x280000401\n";
        assert_eq!(shown(&striped(&[5]), false, "q"), row);
        let row = "      -   0: { l_ost_idx:   1, l_fid: [0x280000401:0x2:0x800] }\n";
        assert_eq!(shown(&pfl(), false, "q"), row);
    }

    #[test]
    fn a_file_with_components() {
        let expected = "  lcm_layout_gen:    3
  lcm_mirror_count:  1
  lcm_entry_count:   2
    lcme_id:             1
    lcme_mirror_id:      0
    lcme_flags:          init
    lcme_extent.e_start: 0
    lcme_extent.e_end:   1048576
      lmm_stripe_count:  1
      lmm_stripe_size:   4194304
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: 1
      lmm_objects:
      -   0: { l_ost_idx:   1, l_fid: [0x280000401:0x2:0x800] }

    lcme_id:             2
    lcme_mirror_id:      0
    lcme_flags:          0
    lcme_extent.e_start: 1048576
    lcme_extent.e_end:   EOF
      lmm_stripe_count:  1
      lmm_stripe_size:   4194304
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: -1

";
        assert_eq!(shown(&pfl(), false, ""), expected);
        let verbose = shown(&pfl(), false, "v");
        assert!(verbose.starts_with(
            "composite_header:\n  lcm_magic:         0x0BD60BD0\n  lcm_size:          216\n"
        ));
        assert!(
            verbose.contains(
                "\ncomponents:\n  - lcme_id:             1\n    lcme_mirror_id:      0\n"
            ),
            "{verbose}"
        );
        assert!(verbose.contains(
            "\n    lcme_offset:         184\n    lcme_size:           32\n    sub_layout:\n"
        ));
    }

    #[test]
    fn a_component_on_the_mdt_names_the_mdt() {
        let mut layout = pfl();
        let dom = &mut layout.components[0];
        (dom.pattern, dom.stripe_count, dom.stripe_size) = (Pattern::Mdt, 0, 1 << 20);
        dom.stripes.clear();
        let text = shown(&layout, false, "");
        let expected = "\
      lmm_stripe_count:  0
      lmm_stripe_size:   1048576
      lmm_pattern:       mdt
      lmm_layout_gen:    0
      lmm_mdt_index:     2

";
        assert!(
            text.contains("    lcme_flags:          init\n") && text.contains(expected),
            "{text}"
        );
    }

    #[test]
    fn a_default_with_components_has_no_numbers() {
        let wish = LovEa { layout: pfl() };
        let text = Subject::read(encode_spec(&wish), true).unwrap().text(&Fields::of(&args("")));
        let expected = "    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 1048576
    lcme_extent.e_end:   EOF
      stripe_count:  1       stripe_size:   4194304       pattern:       raid0       stripe_offset: -1

";
        assert!(text.ends_with(expected), "{text}");
    }
}
