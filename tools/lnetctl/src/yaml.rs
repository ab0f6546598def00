//! YAML as `lnetctl` prints it, and as it reads it again.
//!
//! Lustre's form has steps of its own: a list stands four columns right of a key at the margin, two
//! right of another one, and what belongs to a key four right of it. What is read may be any YAML
//! without anchors, of at most [`TEXT_BYTES_MAX`] bytes.

use std::io::{self, Write};
use yaml_rust2::YamlLoader;
pub use yaml_rust2::yaml::Yaml;

/// Longest text that is read, bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest line, bytes: the reader calls itself for each step inwards.
const LINE_BYTES_MAX: usize = 512;
/// Brackets and braces of a text: these may stand within each other on many lines.
const BRACKETS_MAX: usize = 128;

/// What is printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// A word, a number, a sentence.
    Text(String),
    /// Keys and their values, in this order.
    Map(Vec<(String, Out)>),
    /// A list.
    List(Vec<Out>),
}

impl Out {
    /// A text.
    pub fn text(text: impl ToString) -> Out {
        Out::Text(text.to_string())
    }
}

/// An entry of a map.
pub fn entry(key: &str, value: Out) -> (String, Out) {
    (key.to_owned(), value)
}

/// Prints a document.
///
/// # Errors
/// `out` cannot be written.
pub fn print(out: &mut dyn Write, entries: &[(String, Out)]) -> io::Result<()> {
    map(out, entries, 0, "")
}

/// `lead`: stands before the first entry in place of the indent.
fn map(
    out: &mut dyn Write,
    entries: &[(String, Out)],
    indent: usize,
    lead: &str,
) -> io::Result<()> {
    for (n, (key, value)) in entries.iter().enumerate() {
        match (n, lead) {
            (0, lead) if !lead.is_empty() => out.write_all(lead.as_bytes())?,
            _ => write!(out, "{:indent$}", "")?,
        }
        match value {
            Out::Text(text) => writeln!(out, "{key}: {}", scalar(text))?,
            Out::Map(inner) => {
                writeln!(out, "{key}:")?;
                map(out, inner, indent + 4, "")?;
            }
            Out::List(items) => {
                writeln!(out, "{key}:")?;
                let at = indent + if indent == 0 { 4 } else { 2 };
                let lead = format!("{:at$}- ", "");
                for item in items {
                    match item {
                        Out::Map(inner) => map(out, inner, at + 2, &lead)?,
                        Out::Text(text) => writeln!(out, "{lead}{}", scalar(text))?,
                        Out::List(_) => {}
                    }
                }
            }
        }
    }
    Ok(())
}

/// The text as one value: in quotes if it could be taken for something else.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '/' || c == ':' || c == '.';
    let plain = match text.strip_prefix('-') {
        Some(number) => number.starts_with(|c: char| c.is_ascii_digit()),
        None => text.starts_with(is_plain),
    };
    let safe = plain
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && !text.chars().any(char::is_control);
    if safe { text.to_owned() } else { format!("\"{}\"", text.escape_debug()) }
}

/// Reads a document.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn read(text: &str) -> Result<Yaml, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
    }
    if text.lines().any(|line| line.len() > LINE_BYTES_MAX) {
        return Err(format!("a line has more than {LINE_BYTES_MAX} bytes"));
    }
    if text.bytes().filter(|b| matches!(b, b'[' | b'{')).count() > BRACKETS_MAX {
        return Err(format!("it has more than {BRACKETS_MAX} brackets"));
    }
    // An alias stands for a copy: a few of them, within each other, are any number of bytes.
    if text.contains('&') {
        return Err("anchors (&) are not read".to_owned());
    }
    let mut documents = YamlLoader::load_from_str(text).map_err(|e| e.to_string())?;
    match (documents.pop(), documents.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Ok(Yaml::Null),
        (Some(_), false) => Err("it has several documents".to_owned()),
    }
}

/// The words of a value: a text or a number.
pub fn words(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) => Some(text.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(entries: &[(String, Out)]) -> String {
        let mut out = Vec::new();
        print(&mut out, entries).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn it_prints_in_the_steps_of_lustre_and_reads_it_again() {
        let ni = Out::Map(vec![
            entry("nid", Out::text("10.0.0.1@tcp1")),
            entry("interfaces", Out::Map(vec![entry("0", Out::text("eth1"))])),
        ]);
        let net = Out::Map(vec![
            entry("net type", Out::text("tcp1")),
            entry("local NI(s)", Out::List(vec![ni])),
        ]);
        let text = printed(&[entry("net", Out::List(vec![net]))]);
        assert_eq!(
            text,
            "net:\n    - net type: tcp1\n      local NI(s):\n        - nid: 10.0.0.1@tcp1\n          interfaces:\n              \
             0: eth1\n"
        );
        let read = read(&text).unwrap();
        let ni = &read["net"][0]["local NI(s)"][0];
        assert_eq!(words(&ni["nid"]).as_deref(), Some("10.0.0.1@tcp1"));
        let (number, interface) = ni["interfaces"].as_hash().unwrap().iter().next().unwrap();
        assert_eq!((words(number), words(interface)), (Some("0".into()), Some("eth1".into())));
    }

    #[test]
    fn texts_that_could_be_something_else_stand_in_quotes() {
        for (text, shown) in [
            ("up", "up"),
            ("-1", "-1"),
            ("10.0.0.1:7988@tcp", "10.0.0.1:7988@tcp"),
            ("::1@tcp", "::1@tcp"),
            ("[::1]:7@tcp", "\"[::1]:7@tcp\""),
            ("*", "\"*\""),
            ("", "\"\""),
            ("no: reason", "\"no: reason\""),
            ("a \"b\"", "a \"b\""),
        ] {
            assert_eq!(scalar(text), shown);
            let read = read(&printed(&[entry("k", Out::text(text))])).unwrap();
            assert_eq!(words(&read["k"]).as_deref(), Some(text), "{shown}");
        }
    }

    #[test]
    fn what_is_read_is_bounded() {
        let deep = "[".repeat(BRACKETS_MAX + 1);
        let wide = "- ".repeat(LINE_BYTES_MAX);
        let long = "a: b\n".repeat(TEXT_BYTES_MAX / 4);
        for (text, why) in [
            (deep.as_str(), "brackets"),
            (&wide, "a line has"),
            (&long, "it has more than"),
            ("a: &b c\nd: *b", "anchors"),
            ("a: b\n---\nc: d", "several documents"),
        ] {
            assert!(read(text).unwrap_err().contains(why), "{why}");
        }
        assert_eq!(read("").unwrap(), Yaml::Null);
        // As deep as the bounds allow.
        assert!(read(&"[".repeat(BRACKETS_MAX)).is_err());
        assert!(read(&"- ".repeat(LINE_BYTES_MAX / 2)).is_ok());
    }
}
