//! Words of a command line to what is searched for.

use super::compare::Compare;
use super::facts::Needs;
use super::format::Format;
use super::people;
use super::test::{Bits, Test, Time};
use super::when::When;
use layout::layout::Pattern;
use rustix::fs::{FileType, StatxAttributes};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use types::dir_stripes::{DirHash, UnknownHash};
use types::target::TargetIndex;

/// Threads that search at once by default.
const THREADS: usize = 4;
/// Threads at most.
const THREADS_MAX: usize = 64;

/// How a matching file is printed.
#[derive(Debug)]
pub enum Print {
    /// Its path and a newline.
    Line,
    /// Its path and a NUL.
    Nul,
    /// As `ls -dils`.
    Long,
    /// By a format.
    Format(Format),
}

/// A search.
#[derive(Debug)]
pub struct Query {
    /// Where the search begins.
    pub paths: Vec<PathBuf>,
    /// Predicates that must hold (`true`) or must not (`false`).
    pub tests: Vec<(bool, Test)>,
    /// The prints, in this order.
    pub prints: Vec<Print>,
    /// Levels that are not judged.
    pub min_depth: usize,
    /// Levels that are looked at.
    pub max_depth: usize,
    /// Files that match and are not printed, percent.
    pub skip: u32,
    /// Threads.
    pub threads: usize,
    /// The facts that all of it needs of files.
    pub needs: Needs,
}

impl Print {
    fn needs(&self) -> Needs {
        match self {
            Print::Line | Print::Nul => Needs::default(),
            Print::Long => Needs::ATTRIBUTES,
            Print::Format(format) => format.needs(),
        }
    }
}

/// Reads the words.
///
/// # Errors
/// One sentence.
pub fn parse(words: &[OsString]) -> Result<Query, String> {
    let mut rest = words.iter();
    let mut query = Query {
        paths: Vec::new(),
        tests: Vec::new(),
        prints: Vec::new(),
        min_depth: 0,
        max_depth: usize::MAX,
        skip: 0,
        threads: THREADS,
        needs: Needs::default(),
    };
    let mut wanted = true;
    while let Some(word) = rest.next() {
        if word == "--" {
            query.paths.extend(rest.by_ref().map(PathBuf::from));
            continue;
        }
        if word != "!" && word.as_bytes().first() != Some(&b'-') {
            if !wanted {
                return Err(format!("{}: a predicate belongs after '!'", word.display()));
            }
            query.paths.push(PathBuf::from(word));
            continue;
        }
        let text = word.to_str().ok_or_else(|| format!("{word:?} is no predicate"))?;
        if text == "!" || text == "-not" {
            wanted = !wanted;
            continue;
        }
        let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).unwrap_or(text);
        let (name, joined) = match name.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (name, None),
        };
        let mut value = || {
            joined
                .clone()
                .or_else(|| rest.next().cloned())
                .ok_or_else(|| format!("-{name} needs a value"))
        };
        let mut text_value =
            || value().and_then(|v| v.into_string().map_err(|v| format!("{v:?} is no text")));
        match name {
            "print" => query.prints.push(Print::Line),
            "print0" | "0" => query.prints.push(Print::Nul),
            "ls" => query.prints.push(Print::Long),
            "printf" => query.prints.push(Print::Format(Format::parse(&text_value()?)?)),
            "maxdepth" | "D" => query.max_depth = number(&text_value()?)?,
            "mindepth" => query.min_depth = number(&text_value()?)?,
            "threads" => query.threads = number::<usize>(&text_value()?)?.clamp(1, THREADS_MAX),
            "skip" => {
                query.skip = number(text_value()?.trim_end_matches('%'))?;
                if query.skip > 100 {
                    return Err("-skip takes 0 to 100 percent".to_owned());
                }
            }
            // Sizes and times here are always exact and come from one place.
            "lazy" => {}
            name => {
                let test = test(name, &mut value)?;
                query.tests.push((wanted, test));
            }
        }
        wanted = true;
    }
    if query.paths.is_empty() {
        query.paths.push(PathBuf::from("."));
    }
    if query.prints.is_empty() {
        query.prints.push(Print::Line);
    }
    let needs = query
        .tests
        .iter()
        .map(|(_, test)| test.needs())
        .chain(query.prints.iter().map(Print::needs));
    query.needs = needs.fold(Needs::default(), Needs::and);
    Ok(query)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// A pattern with fnmatch(3)'s letters, where braces and "!" mean themselves, for `fast_glob`.
fn name_pattern(text: &str) -> Result<String, String> {
    let mut pattern = String::with_capacity(text.len() + 8);
    let (mut in_class, mut escaped) = (false, false);
    for (at, letter) in text.char_indices() {
        if !in_class && !escaped && (matches!(letter, '{' | '}') || (at, letter) == (0, '!')) {
            pattern.push('\\');
        }
        pattern.push(letter);
        in_class = !escaped && (letter == '[' || (in_class && letter != ']'));
        escaped = letter == '\\' && !escaped;
    }
    match fast_glob::validate(&pattern) {
        Ok(()) => Ok(pattern),
        Err(error) => Err(format!("{text:?} is no pattern: {error}")),
    }
}

fn test(name: &str, value: &mut dyn FnMut() -> Result<OsString, String>) -> Result<Test, String> {
    let mut text =
        || value().and_then(|v| v.into_string().map_err(|v| format!("{v:?} is no text")));
    Ok(match name {
        "name" | "n" => Test::Name(name_pattern(&text()?)?),
        "type" | "t" => Test::Kind(kinds(&text()?)?),
        "size" | "s" => Test::Size(Compare::bytes(&text()?)?),
        "blocks" | "b" => Test::Blocks(Compare::bytes(&text()?)?),
        "uid" | "user" | "u" => {
            let text = text()?;
            Test::Uid(people::uid(&text).ok_or_else(|| format!("there is no user {text:?}"))?)
        }
        "gid" | "group" | "g" => {
            let text = text()?;
            Test::Gid(people::gid(&text).ok_or_else(|| format!("there is no group {text:?}"))?)
        }
        "perm" => Test::Perm(bits(&text()?)?),
        "links" => Test::Links(Compare::number(&text()?)?),
        "atime" | "A" => Test::Age(Time::Access, Compare::age(&text()?)?, now()),
        "mtime" | "M" => Test::Age(Time::Modify, Compare::age(&text()?)?, now()),
        "ctime" | "C" => Test::Age(Time::Change, Compare::age(&text()?)?, now()),
        "btime" | "Btime" | "B" => Test::Age(Time::Birth, Compare::age(&text()?)?, now()),
        "amin" => Test::Age(Time::Access, Compare::age(&format!("{}m", text()?))?, now()),
        "mmin" => Test::Age(Time::Modify, Compare::age(&format!("{}m", text()?))?, now()),
        "cmin" => Test::Age(Time::Change, Compare::age(&format!("{}m", text()?))?, now()),
        "attrs" => attrs(&text()?)?,
        "xattr" => {
            let text = text()?;
            match text.split_once('=') {
                Some((name, value)) => {
                    Test::Xattr(name.to_owned(), Some(value.as_bytes().to_owned()))
                }
                None => Test::Xattr(text, None),
            }
        }
        "mdt" | "m" | "mdt-index" => Test::Mdt(targets(&text()?, "MDT")?),
        "ost" | "O" | "obd" => {
            Test::Ost(targets(&text()?, "OST")?.into_iter().map(TargetIndex).collect())
        }
        "pool" | "p" => Test::Pool(text()?),
        "stripe-count" | "stripe_count" | "c" => Test::StripeCount(Compare::number(&text()?)?),
        "stripe-size" | "stripe_size" | "S" => Test::StripeSize(Compare::bytes(&text()?)?),
        "stripe-index" | "stripe_index" | "i" => {
            Test::StripeIndex(targets(&text()?, "OST")?.into_iter().map(TargetIndex).collect())
        }
        "layout" | "L" => layouts(&text()?)?,
        "component-count" | "comp-count" => Test::ComponentCount(Compare::number(&text()?)?),
        "component-start" | "comp-start" => Test::ComponentStart(Compare::bytes(&text()?)?),
        "component-end" | "comp-end" | "E" => match &*text()? {
            "eof" | "EOF" | "-1" => Test::ComponentEndEof,
            text => Test::ComponentEnd(Compare::bytes(text)?),
        },
        "component-flags" | "comp-flags" => match &*text()? {
            "init" => Test::ComponentInit,
            "^init" => return Err("write ! -component-flags init".to_owned()),
            "extension" => Test::ComponentExtends,
            // Flags of mirrors: no file has them.
            "prefer" | "prefrd" | "prefwr" | "stale" | "offline" | "nosync" => {
                Test::Constant(false)
            }
            other => return Err(format!("{other:?} is no flag of a component")),
        },
        "mdt-count" | "T" => Test::DirStripes(Compare::number(&text()?)?),
        "mdt-hash" | "H" => Test::DirHash(hashes(&text()?)?),
        "mirror-count" | "N" => Test::Mirrors(Compare::number(&text()?)?),
        "extension-size" | "ext-size" | "ext_size" | "z" => {
            Test::ExtensionSize(Compare::bytes(&text()?)?)
        }
        "mirror-state" => {
            text()?;
            Test::Constant(false)
        }
        "foreign" => Test::Constant(false),
        "projid" => Test::Project(Compare::number(&text()?)?),
        newer if newer == "newer" || newer == "anewer" || newer == "cnewer" => {
            let time = match newer {
                "anewer" => Time::Access,
                "cnewer" => Time::Change,
                _ => Time::Modify,
            };
            Test::Newer(time, time_of(&text()?, Time::Modify)?)
        }
        newer if newer.strip_prefix("newer").is_some_and(|letters| letters.len() == 2) => {
            let letters = newer.as_bytes();
            let (time, than) = (letter(letters[5])?, letters[6]);
            let text = text()?;
            match than {
                b't' => Test::Newer(time, seconds(&text)?),
                than => Test::Newer(time, time_of(&text, letter(than)?)?),
            }
        }
        other => return Err(format!("-{other} is no predicate; see: lfs find --help")),
    })
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn letter(letter: u8) -> Result<Time, String> {
    match letter {
        b'a' => Ok(Time::Access),
        b'm' => Ok(Time::Modify),
        b'c' => Ok(Time::Change),
        b'b' | b'B' => Ok(Time::Birth),
        other => {
            Err(format!("-newerXY takes a, m, c, b (and t for Y), not {:?}", char::from(other)))
        }
    }
}

fn time_of(path: &str, time: Time) -> Result<When, String> {
    let facts = super::facts::Facts::new(Path::new(path).to_owned(), 0, None);
    facts.stat().map(|stat| time.of(stat)).map_err(|e| format!("{path}: {e}"))
}

/// `@1700000000` or `1700000000`, with a fraction.
fn seconds(text: &str) -> Result<When, String> {
    let bad = || format!("{text:?} is no time; write seconds since 1970: @1700000000");
    let (seconds, fraction) =
        text.trim_start_matches('@').split_once('.').unwrap_or((text.trim_start_matches('@'), ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Ok(When {
        seconds: seconds.parse().map_err(|_| bad())?,
        nanos: digits.parse().map_err(|_| bad())?,
    })
}

fn kinds(text: &str) -> Result<Vec<FileType>, String> {
    text.split(',')
        .map(|word| match word {
            "b" => Ok(FileType::BlockDevice),
            "c" => Ok(FileType::CharacterDevice),
            "d" => Ok(FileType::Directory),
            "f" => Ok(FileType::RegularFile),
            "l" => Ok(FileType::Symlink),
            "p" => Ok(FileType::Fifo),
            "s" => Ok(FileType::Socket),
            other => Err(format!("{other:?} is no type; write b, c, d, f, l, p or s")),
        })
        .collect()
}

fn bits(text: &str) -> Result<Bits, String> {
    let octal = |digits: &str| {
        let number = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777);
        number.ok_or_else(|| {
            format!("{text:?} is no mode; write octal digits: 644, -022 (all), /111 (any)")
        })
    };
    let mode = |word: &str| {
        match word.bytes().all(|b| b.is_ascii_digit()) {
        true => octal(word),
        false => symbolic(word).ok_or_else(|| {
            format!("{text:?} is no mode; write octal digits or letters: 644, u=rw,go=r; -g+w (all), /a+x (any)")
        }),
    }
    };
    match text.as_bytes().first() {
        Some(b'-') => mode(&text[1..]).map(Bits::All),
        Some(b'/') => mode(&text[1..]).map(Bits::Any),
        _ => mode(text).map(Bits::Exactly),
    }
}

/// Bits of a mode as chmod(1) writes it, applied to a file that has none: `u=rwx,g+r`. Without a
/// class, of all.
fn symbolic(text: &str) -> Option<u32> {
    let mut mode = 0;
    for clause in text.split(',') {
        let classes = clause.find(|c| !matches!(c, 'u' | 'g' | 'o' | 'a'))?;
        let (who, mut actions) =
            (if classes == 0 { "a" } else { &clause[..classes] }, &clause[classes..]);
        while let Some(action) = actions.chars().next() {
            let end = actions[1..].find(['=', '+', '-']).map_or(actions.len(), |at| at + 1);
            let letters = &actions[1..end];
            let copied = match letters {
                "u" => Some(mode >> 6 & 7),
                "g" => Some(mode >> 3 & 7),
                "o" => Some(mode & 7),
                _ => None,
            };
            let (mut bits, mut whole) = (0, 0);
            for class in who.chars() {
                let (shift, special) = match class {
                    'u' => (6, 0o4000),
                    'g' => (3, 0o2000),
                    _ => (0, 0),
                };
                let classes = if class == 'a' { [6, 3, 0].as_slice() } else { &[shift] };
                let special = if class == 'a' { 0o6000 } else { special };
                whole |= special | classes.iter().fold(0, |all, shift| all | 7 << shift);
                if let Some(copied) = copied {
                    bits |= classes.iter().fold(0, |all, shift| all | copied << shift);
                    continue;
                }
                for letter in letters.chars() {
                    let of_each = match letter {
                        'r' => 4,
                        'w' => 2,
                        'x' | 'X' => 1,
                        's' | 't' => 0,
                        _ => return None,
                    };
                    bits |= classes.iter().fold(0, |all, shift| all | of_each << shift);
                    bits |= match letter {
                        's' => special,
                        't' => 0o1000,
                        _ => 0,
                    };
                }
            }
            mode = match action {
                '+' => mode | bits,
                '-' => mode & !bits,
                '=' => mode & !whole | bits,
                _ => return None,
            };
            actions = &actions[end..];
        }
    }
    Some(mode)
}

fn attrs(text: &str) -> Result<Test, String> {
    let mut wanted = StatxAttributes::empty();
    for word in text.split(',') {
        wanted |= match word {
            "compressed" | "c" => StatxAttributes::COMPRESSED,
            "immutable" | "i" => StatxAttributes::IMMUTABLE,
            "append" | "a" => StatxAttributes::APPEND,
            "nodump" | "d" => StatxAttributes::NODUMP,
            "encrypted" | "E" => StatxAttributes::ENCRYPTED,
            other => return Err(format!("{other:?} is no attribute that a file can be asked for")),
        };
    }
    Ok(Test::Attrs(wanted))
}

fn layouts(text: &str) -> Result<Test, String> {
    let mut patterns = Vec::new();
    for word in text.split(',') {
        match word {
            "raid0" => patterns.push(Pattern::Raid0),
            "mdt" => patterns.push(Pattern::Mdt),
            // Nothing is archived, so nothing is released.
            "released" => {}
            other => return Err(format!("{other:?} is no layout; write raid0, mdt or released")),
        }
    }
    Ok(Test::Layout(patterns))
}

/// Hashes of names, `none` (a directory without stripes) or `migrating`.
fn hashes(text: &str) -> Result<Vec<String>, String> {
    let words = text.split(',').map(|word| match word {
        "none" | "migrating" => Ok(word.to_owned()),
        _ => word.parse::<DirHash>().map(|hash| hash.to_string()),
    });
    words.collect::<Result<_, UnknownHash>>().map_err(|error| error.to_string())
}

/// `0,3`, `5-7`, `sheen-OST0003_UUID`, `OST0003`.
pub(crate) fn targets(text: &str, kind: &str) -> Result<Vec<u16>, String> {
    let mut all = Vec::new();
    for word in text.split(',') {
        match word.split_once('-').map(|(from, to)| (from.parse::<u16>(), to.parse::<u16>())) {
            Some((Ok(from), Ok(to))) if from <= to => all.extend(from..=to),
            Some((Ok(_), Ok(_))) => return Err(format!("{word} runs backwards")),
            _ => all.push(target(word, kind)?),
        }
    }
    Ok(all)
}

fn target(word: &str, kind: &str) -> Result<u16, String> {
    let short = word.strip_suffix("_UUID").unwrap_or(word);
    let number = short.rsplit_once('-').map_or(short, |(_, rest)| rest);
    let parsed = match number.strip_prefix(kind) {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => short.parse().ok(),
    };
    parsed.ok_or_else(|| {
        format!("{word:?} names no {kind}; write indexes or names: 0, 2-4, sheen-{kind}0000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Query, String> {
        parse(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn paths_and_predicates_each_perhaps_negated_in_any_order() {
        let query = parsed("a b -name *.c ! -type d,l --size +1M -maxdepth 3 -print0").unwrap();
        assert_eq!(query.paths, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(
            query.tests.iter().map(|(wanted, _)| *wanted).collect::<Vec<_>>(),
            [true, false, true]
        );
        assert!(matches!(query.prints[..], [Print::Nul]));
        assert_eq!((query.min_depth, query.max_depth, query.threads), (0, 3, THREADS));
        assert_eq!(parsed("").unwrap().paths, [PathBuf::from(".")]);
        assert!(matches!(parsed("x").unwrap().prints[..], [Print::Line]));
        let query = parsed("-type f a -size -1M b ! -name x c -- -odd").unwrap();
        assert_eq!(query.paths, ["a", "b", "c", "-odd"].map(PathBuf::from));
        assert_eq!(
            query.tests.iter().map(|(wanted, _)| *wanted).collect::<Vec<_>>(),
            [true, true, false]
        );
    }

    #[test]
    fn names_are_compared_as_fnmatch_does() {
        for (pattern, name, wanted) in [
            ("*.c", "a.c", true),
            ("*.c", ".c", true),
            ("?[a-c]", "xb", true),
            ("?[!a-c]", "xb", false),
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
            ("!x", "!x", true),
            ("!x", "y", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[{]", "{", true),
        ] {
            let pattern_of = name_pattern(pattern).unwrap();
            assert_eq!(fast_glob::glob_match(pattern_of, name), wanted, "{pattern} {name}");
        }
        assert!(name_pattern("[a").unwrap_err().contains("is no pattern"));
    }

    #[test]
    fn hashes_of_names_by_their_words() {
        assert_eq!(hashes("crush,none,migrating").unwrap(), ["crush", "none", "migrating"]);
        assert!(hashes("crush,sha").unwrap_err().contains("there are all_char"));
    }

    #[test]
    fn modes_as_chmod_writes_them() {
        for (text, mode) in [
            ("u=rwx", 0o700),
            ("a=r", 0o444),
            ("=rx", 0o555),
            ("u=rw,go=r", 0o644),
            ("ug+rw-w", 0o440),
            ("u+s,g+s,+t", 0o7000),
            ("u=rw,g=u,o=g-w", 0o664),
            ("a=rwx,o-rwx", 0o770),
        ] {
            assert_eq!(symbolic(text), Some(mode), "{text}");
        }
        for bad in ["", "u", "rwx", "u=q", "z+r", "u+r,", "u=rwx g=r"] {
            assert_eq!(symbolic(bad), None, "{bad}");
        }
        assert_eq!(bits("-g+r"), Ok(Bits::All(0o040)));
        assert_eq!(bits("/u+w,o+w"), Ok(Bits::Any(0o202)));
        assert_eq!(bits("u=rwx"), Ok(Bits::Exactly(0o700)));
    }

    #[test]
    fn targets_by_index_and_name() {
        assert_eq!(targets("0,sheen-OST000a_UUID,OST0003", "OST"), Ok(vec![0, 10, 3]));
        assert_eq!(targets("1-3,7", "OST"), Ok(vec![1, 2, 3, 7]));
        assert!(
            targets("3-1", "OST").is_err()
                && targets("1-", "OST").is_err()
                && targets("1-x", "OST").is_err()
        );
        assert!(targets("MDT0000", "OST").is_err() && targets("", "OST").is_err());
    }

    #[test]
    fn every_predicate_is_understood() {
        for words in [
            "-atime +1",
            "-mtime -2h",
            "-ctime 3",
            "-btime -1y",
            "-newermt @1700000000.5",
            "-newer /",
            "-newerac /",
            "-attrs immutable",
            "-blocks +8",
            "-component-count 2",
            "-component-start 0",
            "-component-end eof",
            "-component-flags init",
            "-ext-size 1M",
            "-foreign",
            "-gid 0",
            "-group root",
            "-layout raid0,mdt",
            "-lazy",
            "-links +1",
            "-mdt-count 0",
            "-mdt-hash crush",
            "-mdt 0",
            "-mirror-count 1",
            "-mirror-state ro",
            "-ost 0,1",
            "-perm 644",
            "-perm -022",
            "-perm /111",
            "-pool flash",
            "-print",
            "-printf %p\\n",
            "-projid 0",
            "-skip 50",
            "-stripe-count +1",
            "-stripe-index 0",
            "-stripe-size 1M",
            "-threads 2",
            "-uid 0",
            "-user root",
            "-xattr user.a",
            "-xattr user.a=b",
            "-ls",
            "--stripe-count=4",
            "-E -1",
        ] {
            parsed(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (words, said) in [
            ("-nmae x", "no predicate"),
            ("-name", "needs a value"),
            ("-type x", "no type"),
            ("-size lots", "no number"),
            ("-perm 9", "no mode"),
            ("! a", "after '!'"),
            ("-perm u=q", "no mode"),
            ("-user nobody-has-this-name", "no user"),
            ("-layout tape", "no layout"),
            ("-newerxy /", "takes a, m, c, b"),
            ("-skip 101", "0 to 100"),
            ("-printf %Q", "%Q"),
            ("-maxdepth -1", "no number"),
        ] {
            let error = parsed(words).expect_err(words);
            assert!(error.contains(said), "{words}: {error}");
        }
    }
}
