//! Layouts as YAML: what `getstripe --yaml` prints and `setstripe --yaml` takes.
//!
//! Only shapes are read: generations, flags, numbers and objects belong to another file. The form
//! is Lustre's, a line for each value. It is read line by line, so a template written by hand may
//! leave out values.

use layout::layout::{ALL_OSTS, Component, EOF, Layout, Pattern, PoolName};
use layout::lov_ea::{LovEa, object_fid};
use std::fmt::Write;
use types::fid::Fid;

/// Longest template, bytes.
pub const BYTES_MAX: u64 = 1 << 20;

/// A layout as YAML.
pub fn text(ea: &LovEa, fid: Fid) -> String {
    let mut text = String::new();
    let layout = &ea.layout;
    // Objects keep the names that they were made with.
    let named = layout.names(fid);
    match &layout.components[..] {
        [one] if layout.is_plain() => component(&mut text, one, layout.generation, named, ""),
        components => {
            line(&mut text, format_args!("  lcm_layout_gen:    {}", layout.generation));
            line(&mut text, format_args!("  lcm_mirror_count:  1"));
            line(&mut text, format_args!("  lcm_entry_count:   {}", components.len()));
            for (n, c) in components.iter().enumerate() {
                line(&mut text, format_args!("  component{n}:"));
                line(&mut text, format_args!("    lcme_id:             {}", c.id));
                line(&mut text, format_args!("    lcme_mirror_id:      0"));
                line(&mut text, format_args!("    lcme_flags:          {}", flags(c)));
                line(&mut text, format_args!("    lcme_extent.e_start: {}", c.start));
                match c.end {
                    EOF => line(&mut text, format_args!("    lcme_extent.e_end:   EOF")),
                    end => line(&mut text, format_args!("    lcme_extent.e_end:   {end}")),
                }
                line(&mut text, format_args!("    sub_layout:"));
                component(&mut text, c, 0, named, "      ");
            }
        }
    }
    text
}

fn flags(c: &Component) -> &'static str {
    match c.pattern {
        Pattern::Extension => "extension",
        _ if c.stripes.is_empty() => "0",
        _ => "init",
    }
}

fn component(text: &mut String, c: &Component, generation: u32, named: Fid, indent: &str) {
    let pattern = match (c.pattern, c.overstriped) {
        (Pattern::Mdt, _) => "mdt",
        (Pattern::Raid0, false) | (Pattern::Extension, _) => "raid0",
        (Pattern::Raid0, true) => "raid0,overstriped",
    };
    let count =
        if c.stripe_count == ALL_OSTS { "-1".to_owned() } else { c.stripe_count.to_string() };
    line(text, format_args!("{indent}lmm_stripe_count:  {count}"));
    match c.extension_size() {
        None => line(text, format_args!("{indent}lmm_stripe_size:   {}", c.stripe_size)),
        Some(size) => line(text, format_args!("{indent}lmm_extension_size: {size}")),
    }
    line(text, format_args!("{indent}lmm_pattern:       {pattern}"));
    line(text, format_args!("{indent}lmm_layout_gen:    {generation}"));
    match c.stripes.first() {
        Some(first) => line(text, format_args!("{indent}lmm_stripe_offset: {}", first.0)),
        None => line(text, format_args!("{indent}lmm_stripe_offset: -1")),
    }
    if let Some(PoolName(pool)) = &c.pool {
        line(text, format_args!("{indent}lmm_pool:          {pool}"));
    }
    if !c.stripes.is_empty() {
        line(text, format_args!("{indent}lmm_objects:"));
    }
    for (stripe, ost) in (0u32..).zip(&c.stripes) {
        line(text, format_args!("{indent}- l_ost_idx: {}", ost.0));
        line(text, format_args!("{indent}  l_fid:     \"{}\"", object_fid(named, c.id, stripe)));
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to memory");
}

/// The layout that a template wishes for; OSTs are left to the file system.
///
/// # Errors
/// One sentence, with the line.
pub fn read(text: &str) -> Result<LovEa, String> {
    let mut components: Vec<Component> = Vec::new();
    let mut composite = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some((key, value)) = line.split_once(':') else {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            return Err(format!("line {number}: {:?} is no 'name: value'", line.trim()));
        };
        let (key, value) = (key.trim().trim_start_matches("- "), value.trim());
        let bad = || format!("line {number}: {value:?} is no value of {key}");
        if key
            .strip_prefix("component")
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        {
            if !composite {
                components.clear();
            }
            composite = true;
            components.push(open(components.len() as u32 + 1));
            continue;
        }
        if components.is_empty() {
            components.push(open(1));
        }
        let c = components.last_mut().expect("not empty");
        match key {
            "lmm_stripe_count" if value == "-1" => c.stripe_count = ALL_OSTS,
            "lmm_stripe_count" => c.stripe_count = value.parse().map_err(|_| bad())?,
            "lmm_stripe_size" => c.stripe_size = value.parse().map_err(|_| bad())?,
            "lmm_extension_size" => {
                let size = value.parse().map_err(|_| bad())?;
                *c = Component::extension(c.id, c.start, c.end, size).ok_or_else(bad)?;
            }
            "lmm_pattern" if c.pattern == Pattern::Extension => {}
            "lmm_pattern" => match value {
                "raid0" | "0" | "1" => c.pattern = Pattern::Raid0,
                "raid0,overstriped" => (c.pattern, c.overstriped) = (Pattern::Raid0, true),
                "mdt" => c.pattern = Pattern::Mdt,
                _ => return Err(bad()),
            },
            "lmm_pool" => c.pool = Some(PoolName::new(value).ok_or_else(bad)?),
            "lcme_extent.e_start" => c.start = value.parse().map_err(|_| bad())?,
            "lcme_extent.e_end" if value == "EOF" || value == "-1" => c.end = EOF,
            "lcme_extent.e_end" => c.end = value.parse().map_err(|_| bad())?,
            "lcm_mirror_count" if value != "1" => {
                return Err(format!("line {number}: files have no mirrors yet"));
            }
            _ if ["lmm_", "lcm_", "lcme_", "l_", "sub_layout", "composite_header"]
                .iter()
                .any(|p| key.starts_with(p)) => {}
            _ if key.bytes().all(|b| b.is_ascii_digit()) && value.is_empty() => {}
            _ => return Err(format!("line {number}: {key:?} is no word of a layout")),
        }
    }
    if components.is_empty() {
        return Err("the template describes no layout".to_owned());
    }
    for c in components.iter_mut().filter(|c| c.pattern == Pattern::Mdt) {
        (c.stripe_count, c.stripe_size) = (0, 0);
    }
    Ok(LovEa { layout: Layout { components, ..Layout::default() } })
}

fn open(id: u32) -> Component {
    Component {
        id,
        start: 0,
        end: EOF,
        pattern: Pattern::Raid0,
        stripe_size: 0,
        stripe_count: 0,
        overstriped: false,
        pool: None,
        stripes: Vec::new(),
        wanted: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Step;
    use crate::spec::{Count, End, ExtensionSize, PoolWord, StripeSize, wish};
    use types::target::TargetIndex;

    const FID: Fid = Fid { seq: 0x2_8000_0401, oid: 2, ver: 0 };

    fn pfl() -> LovEa {
        let pool = PoolWord(PoolName::new("flash").unwrap());
        let steps = [
            Step::End(End(1 << 20)),
            Step::Count(Count(1)),
            Step::Size(StripeSize(65536)),
            Step::End(End(EOF)),
            Step::Overstripe(Count(4)),
            Step::Pool(pool),
        ];
        wish(&steps).unwrap()
    }

    #[test]
    fn what_is_printed_is_understood() {
        let mut ea = pfl();
        assert_eq!(read(&text(&ea, FID)).as_ref(), Ok(&ea));
        ea.layout.generation = 7;
        ea.layout.components[0].stripes = vec![TargetIndex(3)];
        assert_eq!(read(&text(&ea, FID)), Ok(pfl()), "objects and generations are another file's");
        assert_eq!(ea.shape(), pfl());
        let plain = wish(&[Step::Count(Count(2)), Step::Size(StripeSize(1 << 20))]).unwrap();
        assert_eq!(read(&text(&plain, FID)), Ok(plain));
        let steps = [
            Step::End(End(EOF)),
            Step::Size(StripeSize(65536)),
            Step::Extension(ExtensionSize(1 << 26)),
        ];
        let extending = wish(&steps).unwrap();
        assert!(text(&extending, FID).contains("lcme_flags:          extension\n"));
        assert_eq!(read(&text(&extending, FID)), Ok(extending));
    }

    #[test]
    fn a_plain_file_is_lines() {
        let mut ea = wish(&[Step::Count(Count(1)), Step::Size(StripeSize(4 << 20))]).unwrap();
        ea.layout.components[0].stripes = vec![TargetIndex(1)];
        let expected = "\
lmm_stripe_count:  1
lmm_stripe_size:   4194304
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 1
lmm_objects:
- l_ost_idx: 1
  l_fid:     \"[0x280000401:0x2:0x800]\"
";
        assert_eq!(text(&ea, FID), expected);
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_line() {
        for (text, said) in [
            ("", "no layout"),
            ("lmm_stripe_count: x", "line 1: \"x\" is no value"),
            ("lmm_stripe_count: 1\nlmm_patern: raid0\nfoo: 1", "line 3: \"foo\""),
            ("lmm_pattern: tape", "no value of lmm_pattern"),
            ("  lcm_mirror_count:  2", "no mirrors"),
            ("garbage", "no 'name: value'"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
