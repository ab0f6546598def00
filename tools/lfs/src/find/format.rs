//! `-printf` and `-ls`: a file as text.

use super::facts::{Facts, Needs, Stat};
use super::people;
use super::test::Time;
use super::words::Print;
use crate::dirstripe::Place;
use layout::layout::{ALL_OSTS, Component};
use rustix::fs::FileType;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A format, read once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Vec<u8>),
    Field(Field, Shape),
}

/// The part between % and the letter of a directive, as in printf(3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Shape {
    /// `-`: what is missing to the width goes behind.
    left: bool,
    /// `0`: what is missing to the width are zeros, before a number.
    zero: bool,
    /// `+`: a number has a sign.
    plus: bool,
    /// ` `: a number has a sign, or a space.
    space: bool,
    /// `#`: an octal number begins with 0.
    alternate: bool,
    /// Characters at least.
    width: usize,
    /// Digits of a number at least; characters of a text at most.
    precision: Option<usize>,
}

/// Widths and precisions beyond this are cut.
const WIDTH_MAX: usize = 4096;

impl Shape {
    /// Parses the text after a %. Also returns how many bytes of it belong to the shape.
    fn parse(text: &str) -> (Shape, usize) {
        let mut shape = Shape::default();
        let flags = text.find(|c| !matches!(c, '-' | '0' | '+' | ' ' | '#')).unwrap_or(text.len());
        for flag in text[..flags].chars() {
            match flag {
                '-' => shape.left = true,
                '0' => shape.zero = true,
                '+' => shape.plus = true,
                ' ' => shape.space = true,
                _ => shape.alternate = true,
            }
        }
        let digits = |from: usize| {
            text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| from + at)
        };
        let number =
            |from: usize, to: usize| text[from..to].parse().unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
        let mut end = digits(flags);
        if end > flags {
            shape.width = number(flags, end);
        }
        if text[end..].starts_with('.') {
            let from = end + 1;
            end = digits(from);
            shape.precision = Some(if end > from { number(from, end) } else { 0 });
        }
        (shape, end)
    }

    /// Appends a text, or a number in digits.
    fn put(&self, number: bool, text: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        if !number {
            out.extend_from_slice(
                &text[..self.precision.map_or(text.len(), |most| most.min(text.len()))],
            );
        } else {
            let digits = text.strip_prefix(b"-").unwrap_or(text);
            match (digits.len() < text.len(), self.plus, self.space) {
                (true, ..) => out.push(b'-'),
                (false, true, _) => out.push(b'+'),
                (false, false, true) => out.push(b' '),
                (false, false, false) => {}
            }
            let mut wide = self.precision.unwrap_or(0);
            if self.zero && !self.left && self.precision.is_none() {
                wide = self.width.saturating_sub(out.len() - begin);
            }
            out.resize(out.len() + wide.saturating_sub(digits.len()), b'0');
            out.extend_from_slice(digits);
        }
        let missing = self.width.saturating_sub(out.len() - begin);
        out.resize(out.len() + missing, b' ');
        if !self.left {
            out[begin..].rotate_right(missing);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Time(Time),
    Seconds(Time),
    Blocks,
    Group,
    Gid,
    Inode,
    Kib,
    Mode,
    ModeText,
    Links,
    Path,
    Size,
    User,
    Uid,
    Kind,
    Attrs,
    Fid,
    Project,
    StripeCount,
    Hash,
    First,
    Targets,
    Pool,
    StripeSize,
}

impl Field {
    fn is_number(self) -> bool {
        matches!(
            self,
            Field::Blocks
                | Field::Gid
                | Field::Inode
                | Field::Kib
                | Field::Mode
                | Field::Links
                | Field::Size
                | Field::Uid
                | Field::Project
                | Field::StripeCount
                | Field::First
                | Field::StripeSize
                | Field::Seconds(_)
        )
    }

    fn needs(self) -> Needs {
        match self {
            Field::Path | Field::Kind | Field::Attrs | Field::Project | Field::Hash => {
                Needs::default()
            }
            Field::StripeCount | Field::Pool | Field::StripeSize => Needs::LAYOUTS,
            // Of directories these are about the FID.
            Field::First | Field::Targets => Needs { attributes: true, layouts: true },
            _ => Needs::ATTRIBUTES,
        }
    }
}

impl Format {
    /// The facts that printing a file needs.
    pub fn needs(&self) -> Needs {
        self.0.iter().fold(Needs::default(), |needs, part| match part {
            Part::Text(_) => needs,
            Part::Field(what, _) => needs.and(what.needs()),
        })
    }

    /// From the text of `-printf`.
    ///
    /// # Errors
    /// One sentence.
    pub fn parse(text: &str) -> Result<Format, String> {
        let (mut parts, mut plain) = (Vec::new(), Vec::new());
        let mut chars = text.chars();
        let put = |plain: &mut Vec<u8>, c: char| {
            plain.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes())
        };
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('n') => plain.push(b'\n'),
                    Some('t') => plain.push(b'\t'),
                    Some('r') => plain.push(b'\r'),
                    Some('0') => plain.push(0),
                    Some('\\') | None => plain.push(b'\\'),
                    Some(other) => {
                        plain.push(b'\\');
                        put(&mut plain, other);
                    }
                },
                '%' => {
                    let rest = chars.as_str();
                    let (shape, end) = Shape::parse(rest);
                    let letters: String = rest[end..].chars().take(2).collect();
                    if letters.starts_with('%') {
                        plain.push(b'%');
                        chars = rest[end + 1..].chars();
                        continue;
                    }
                    let (what, used) = field(&letters)
                        .ok_or_else(|| format!("%{letters} is nothing that can be printed"))?;
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Field(what, shape));
                    chars = rest[end + used..].chars();
                }
                other => put(&mut plain, other),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Format(parts))
    }

    fn write(&self, file: &Facts, out: &mut Vec<u8>) -> io::Result<()> {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Field(what, shape) => {
                    let mut text = what.text(file)?;
                    if *what == Field::Mode && shape.alternate && text != b"0" {
                        text.insert(0, b'0');
                    }
                    shape.put(what.is_number() && !text.is_empty(), &text, out);
                }
            }
        }
        Ok(())
    }
}

/// The directive that these letters begin with, and its length.
fn field(letters: &str) -> Option<(Field, usize)> {
    let two = match letters {
        "A@" => Field::Seconds(Time::Access),
        "C@" => Field::Seconds(Time::Change),
        "T@" => Field::Seconds(Time::Modify),
        "W@" => Field::Seconds(Time::Birth),
        "La" | "LA" => Field::Attrs,
        "LF" => Field::Fid,
        "LP" => Field::Project,
        "Lc" => Field::StripeCount,
        "Lh" => Field::Hash,
        "Li" => Field::First,
        "Lo" => Field::Targets,
        "Lp" => Field::Pool,
        "LS" => Field::StripeSize,
        _ => {
            let one = match letters.chars().next()? {
                'a' => Field::Time(Time::Access),
                'c' => Field::Time(Time::Change),
                't' => Field::Time(Time::Modify),
                'w' => Field::Time(Time::Birth),
                'b' => Field::Blocks,
                'g' => Field::Group,
                'G' => Field::Gid,
                'i' => Field::Inode,
                'k' => Field::Kib,
                'm' => Field::Mode,
                'M' => Field::ModeText,
                'n' => Field::Links,
                'p' => Field::Path,
                's' => Field::Size,
                'u' => Field::User,
                'U' => Field::Uid,
                'y' => Field::Kind,
                _ => return None,
            };
            return Some((one, 1));
        }
    };
    Some((two, 2))
}

impl Field {
    fn text(self, file: &Facts) -> io::Result<Vec<u8>> {
        let shown = |value: &dyn Fn(&Component) -> String| -> io::Result<String> {
            Ok(file.shown()?.map_or_else(String::new, value))
        };
        let stat = || file.stat();
        let text = match self {
            Field::Path => return Ok(file.path.as_os_str().as_bytes().to_owned()),
            Field::Time(time) => time.of(stat()?).text(),
            Field::Seconds(time) => time.of(stat()?).seconds_text(),
            Field::Blocks => stat()?.blocks.to_string(),
            Field::Group => group(stat()?),
            Field::Gid => stat()?.gid.to_string(),
            Field::Inode => stat()?.ino.to_string(),
            Field::Kib => stat()?.blocks.div_ceil(2).to_string(),
            Field::Mode => format!("{:o}", stat()?.mode & 0o7777),
            Field::ModeText => mode_text(stat()?),
            Field::Links => stat()?.nlink.to_string(),
            Field::Size => stat()?.size.to_string(),
            Field::User => user(stat()?),
            Field::Uid => stat()?.uid.to_string(),
            Field::Kind => kind_letter(file.kind()?, 'f').to_string(),
            Field::Attrs => "---".to_owned(),
            Field::Fid => file.fid()?.to_string(),
            Field::Project => "0".to_owned(),
            Field::StripeCount => match file.place()? {
                Some(place) => place.count().to_string(),
                None => shown(&|c| match c.stripe_count {
                    ALL_OSTS => "-1".to_owned(),
                    count => count.to_string(),
                })?,
            },
            Field::Hash => file.place()?.map_or_else(String::new, Place::hash),
            Field::First => match file.kind()? {
                FileType::Directory => file.fid()?.mdt().to_string(),
                _ => shown(&|c| {
                    c.stripes.first().map_or_else(|| "-1".to_owned(), |ost| ost.0.to_string())
                })?,
            },
            Field::Targets => match file.place()? {
                Some(place) => {
                    place.mdts().iter().map(u16::to_string).collect::<Vec<_>>().join(",")
                }
                None => {
                    let osts = file
                        .components()?
                        .iter()
                        .flat_map(|c| &c.stripes)
                        .map(|ost| ost.0.to_string());
                    osts.collect::<Vec<_>>().join(",")
                }
            },
            Field::Pool => {
                shown(&|c| c.pool.as_ref().map_or_else(String::new, |pool| pool.0.clone()))?
            }
            Field::StripeSize => shown(&|c| c.stripe_size.to_string())?,
        };
        Ok(text.into_bytes())
    }
}

fn user(stat: &Stat) -> String {
    people::user_name(stat.uid).unwrap_or_else(|| stat.uid.to_string())
}

fn group(stat: &Stat) -> String {
    people::group_name(stat.gid).unwrap_or_else(|| stat.gid.to_string())
}

fn kind_letter(kind: FileType, regular: char) -> char {
    match kind {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        _ => regular,
    }
}

/// As ls(1): `-rwxr-xr-x`.
fn mode_text(stat: &Stat) -> String {
    let mode = stat.mode;
    let mut text = String::from(kind_letter(FileType::from_raw_mode(mode), '-'));
    for (shift, special, set, unset) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => set,
            (false, true) => unset,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Appends what is printed of a file.
///
/// # Errors
/// Something that is printed cannot be had; nothing was appended then.
pub fn print(how: &Print, file: &Facts, out: &mut Vec<u8>) -> io::Result<()> {
    let before = out.len();
    let done = match how {
        Print::Line => {
            out.extend_from_slice(file.path.as_os_str().as_bytes());
            out.push(b'\n');
            Ok(())
        }
        Print::Nul => {
            out.extend_from_slice(file.path.as_os_str().as_bytes());
            out.push(0);
            Ok(())
        }
        Print::Format(format) => format.write(file, out),
        Print::Long => long(file, out),
    };
    if done.is_err() {
        out.truncate(before);
    }
    done
}

fn long(file: &Facts, out: &mut Vec<u8>) -> io::Result<()> {
    let stat = file.stat()?;
    let size = match FileType::from_raw_mode(stat.mode) {
        FileType::BlockDevice | FileType::CharacterDevice => {
            format!("{}, {:3}", stat.rdev.0, stat.rdev.1)
        }
        _ => stat.size.to_string(),
    };
    write!(
        out,
        "{:9} {:6} {} {:3} {:8} {:8} {size:>8} {} ",
        stat.ino,
        stat.blocks.div_ceil(2),
        mode_text(stat),
        stat.nlink,
        user(stat),
        group(stat),
        Time::Modify.of(stat).short()
    )?;
    out.extend_from_slice(file.path.as_os_str().as_bytes());
    if file.kind()? == FileType::Symlink {
        let target: PathBuf = std::fs::read_link(&file.path)?;
        out.extend_from_slice(b" -> ");
        out.extend_from_slice(target.as_os_str().as_bytes());
    }
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn printed(format: &str, file: &Facts) -> String {
        let mut out = Vec::new();
        print(&Print::Format(Format::parse(format).unwrap()), file, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn attributes_widths_and_escapes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, [0; 1000]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4751)).unwrap();
        let file = Facts::new(path.clone(), 0, None);
        assert_eq!(
            printed("%p|%s|%m|%M|%n|%y|%U|%u", &file),
            format!("{}|1000|4751|-rwsr-x--x|1|f|0|root", path.display())
        );
        assert_eq!(
            printed("[%-6s][%6s][%06s]\\t\\n\\\\%%\\q", &file),
            "[1000  ][  1000][001000]\t\n\\%\\q"
        );
        assert_eq!(
            printed("[%+6s][% s][%-+7s][%+06s][%.6s][%8.6s]", &file),
            "[ +1000][ 1000][+1000  ][+01000][001000][  001000]"
        );
        assert_eq!(
            printed("[%03y][%-3y][%.0y][%#m][%05n][%.2M]", &file),
            "[  f][f  ][][04751][00001][-r]"
        );
        assert!(printed("%T@ %t", &file).contains(".0") || printed("%T@", &file).contains('.'));
        assert_eq!(printed("%LP%Lh", &file), "0");
        let mut out = Vec::new();
        print(&Print::Long, &file, &mut out).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(
            line.contains(" -rwsr-x--x   1 root     root         1000 ") && line.ends_with("/f\n"),
            "{line}"
        );
    }

    #[test]
    fn unknown_directives_are_refused() {
        for bad in ["%", "%Q", "%LQ", "%-5"] {
            assert!(Format::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Format::parse("%-5%").unwrap(), Format(vec![Part::Text(b"%".to_vec())]));
    }
}
