//! Reads OpenMetrics text back, strictly: what Prometheus would refuse, or take for something else,
//! is an error here.
//!
//! It is for tests of what this program serves, so it knows what that has (counters, gauges,
//! histograms) and refuses the rest of the format (timestamps, exemplars, other types). Source of
//! the rules: OpenMetrics 1.0.0, "Text Format".

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a sample.
pub type Labels = BTreeMap<String, String>;

/// What a family holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Counts that only grow.
    Counter,
    /// Values of a moment.
    Gauge,
    /// Distributions.
    Histogram,
}

/// One line with a value.
#[derive(Clone, PartialEq, Debug)]
pub struct SampleLine {
    /// What stands behind the name of the family: `_total`, `_bucket`, `_count`, `_sum`, or
    /// nothing.
    pub suffix: &'static str,
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: f64,
}

/// A metric family.
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    /// What it holds.
    pub kind: Kind,
    /// What it is about.
    pub help: Option<String>,
    /// Its lines, in order.
    pub samples: Vec<SampleLine>,
}

/// What is wrong, and in which line (from 1).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Malformed {
    /// The line.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

impl Kind {
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Kind::Counter => &["_total"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_count", "_sum"],
        }
    }
}

/// All families of a text.
///
/// # Errors
/// The first line that breaks a rule of the format.
pub fn read(text: &str) -> Result<BTreeMap<String, Family>, Malformed> {
    let Some(body) = text.strip_suffix("# EOF\n") else {
        return Err(Malformed {
            line: text.lines().count(),
            why: "the text does not end with # EOF".to_owned(),
        });
    };
    if !body.is_empty() && !body.ends_with('\n') {
        return Err(Malformed {
            line: text.lines().count(),
            why: "# EOF does not begin a line".to_owned(),
        });
    }
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut series = BTreeSet::new();
    let mut lines = 0;
    for (n, line) in body.split_terminator('\n').enumerate() {
        lines = n + 1;
        let malformed = |why: String| Malformed { line: n + 1, why };
        if let Some(about) = line.strip_prefix("# ") {
            describe(&mut families, &mut current, about).map_err(malformed)?;
            continue;
        }
        let (name, labels, value) = sample(line).map_err(malformed)?;
        let of = current.as_deref().and_then(|family| Some((family, families.get_mut(family)?)));
        let Some((family, found)) = of else {
            return Err(malformed(format!("{name} has no # TYPE before it")));
        };
        let suffix =
            found.kind.suffixes().iter().find(|suffix| name.strip_suffix(**suffix) == Some(family));
        let Some(suffix) = suffix else {
            return Err(malformed(format!("{name} is no sample of {family}")));
        };
        if found.kind != Kind::Gauge && !(value.is_finite() && value >= 0.0) {
            return Err(malformed(format!(
                "{name} is {value}: counts are finite and not negative"
            )));
        }
        if !series.insert((name.clone(), labels.clone())) {
            return Err(malformed(format!("{name} comes twice with these labels")));
        }
        found.samples.push(SampleLine { suffix, labels, value });
    }
    for (name, family) in families.iter().filter(|(_, family)| family.kind == Kind::Histogram) {
        distribution(&family.samples)
            .map_err(|why| Malformed { line: lines, why: format!("{name}: {why}") })?;
    }
    Ok(families)
}

/// A line that begins with `# `.
fn describe(
    families: &mut BTreeMap<String, Family>,
    current: &mut Option<String>,
    about: &str,
) -> Result<(), String> {
    let mut words = about.splitn(3, ' ');
    let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
        return Err(
            "a line that begins with # is TYPE, HELP or UNIT, a name, and a text".to_owned()
        );
    };
    is_name(name, true)?;
    match word {
        "TYPE" => {
            let kind = match rest {
                "counter" => Kind::Counter,
                "gauge" => Kind::Gauge,
                "histogram" => Kind::Histogram,
                other => return Err(format!("{name} is of the type {other}, which is not served")),
            };
            if families
                .insert(name.to_owned(), Family { kind, help: None, samples: Vec::new() })
                .is_some()
            {
                return Err(format!("{name} comes twice"));
            }
            *current = Some(name.to_owned());
        }
        "HELP" | "UNIT" => {
            let of = families.get_mut(name).filter(|_| current.as_deref() == Some(name));
            let Some(family) = of.filter(|family| family.samples.is_empty()) else {
                return Err(format!(
                    "# {word} of {name} stands between its # TYPE and its samples"
                ));
            };
            match word {
                "UNIT" if !name.ends_with(&format!("_{rest}")) => {
                    return Err(format!("{name} does not end in _{rest}"));
                }
                "UNIT" => {}
                _ if family.help.is_some() => return Err(format!("{name} has two # HELP")),
                _ => family.help = Some(unescaped(rest)?),
            }
        }
        other => return Err(format!("# {other} is none of TYPE, HELP, UNIT")),
    }
    Ok(())
}

fn is_name(name: &str, colons: bool) -> Result<(), String> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || colons && c == ':';
    let good = name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit());
    good.then_some(()).ok_or_else(|| format!("{name:?} is no name"))
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '"' => return Err("a quotation mark is not escaped".to_owned()),
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                other => return Err(format!("\\ before {other:?}")),
            },
            c => c,
        });
    }
    Ok(plain)
}

/// `name{label="value",...} value`
fn sample(line: &str) -> Result<(String, Labels, f64), String> {
    let at = line.find(['{', ' ']).ok_or("a line without a value")?;
    let (name, mut rest) = line.split_at(at);
    is_name(name, true)?;
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, value) = rest.split_once("=\"").ok_or("a label without a value")?;
            is_name(label, false)?;
            let end = closing(value).ok_or("a value of a label without its end")?;
            if labels.insert(label.to_owned(), unescaped(&value[..end])?).is_some() {
                return Err(format!("the label {label} comes twice"));
            }
            rest = &value[end + 1..];
            match (rest.strip_prefix(','), rest.strip_prefix('}')) {
                (Some(more), _) => rest = more,
                (_, Some(behind)) => {
                    rest = behind;
                    break;
                }
                _ => return Err("labels are divided by a comma and end with a brace".to_owned()),
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    Ok((name.to_owned(), labels, number(value)?))
}

/// Where the quotation mark is that ends a value.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        _ if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => {
            text.parse().map_err(|_| format!("{text:?} is no number"))
        }
        _ => Err(format!("{text:?} is no number")),
    }
}

/// Lines of one distribution: its buckets (bound, count), its count, and whether it has a sum.
#[derive(Default)]
struct Distribution {
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    has_sum: bool,
}

/// Buckets of one distribution follow each other, grow, and the last one counts all.
fn distribution(samples: &[SampleLine]) -> Result<(), String> {
    let mut seen: BTreeMap<Labels, Distribution> = BTreeMap::new();
    for SampleLine { suffix, labels, value } in samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le");
        let distribution = seen.entry(labels).or_default();
        match (*suffix, bound) {
            ("_bucket", Some(bound)) => distribution.buckets.push((number(&bound)?, *value)),
            ("_bucket", None) => return Err("a bucket without le".to_owned()),
            (_, Some(_)) => return Err("le is of buckets only".to_owned()),
            ("_count", None) => distribution.count = Some(*value),
            (_, None) => distribution.has_sum = true,
        }
    }
    for (labels, Distribution { buckets, count, has_sum }) in seen {
        let grows = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let all = buckets.last().filter(|(bound, _)| *bound == f64::INFINITY).map(|(_, all)| *all);
        if !grows || all.is_none() || all != count || !has_sum {
            return Err(format!(
                "{labels:?}: buckets grow up to +Inf, which counts all, and a sum stands beside them"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# TYPE a counter\n# HELP a b \\\"c\\\" \\\\\na_total{x=\"1\\\"\\\\\\n\"} 7\na_total 8\n# EOF\n";
    const HISTOGRAM: &str = "# TYPE h_seconds histogram\n# UNIT h_seconds seconds\nh_seconds_bucket{le=\"1.5e-5\"} 2\n\
                             h_seconds_bucket{le=\"+Inf\"} 3\nh_seconds_count 3\nh_seconds_sum 0.5\n# EOF\n";

    #[test]
    fn what_is_served_is_read() {
        let families = read(GOOD).unwrap();
        let a = &families["a"];
        assert_eq!((a.kind, a.help.as_deref()), (Kind::Counter, Some("b \"c\" \\")));
        assert_eq!(a.samples[0].labels["x"], "1\"\\\n");
        assert_eq!(a.samples.iter().map(|sample| sample.value).collect::<Vec<_>>(), [7.0, 8.0]);
        assert_eq!(read(HISTOGRAM).unwrap()["h_seconds"].samples.len(), 4);
        assert!(read("# EOF\n").unwrap().is_empty());
    }

    /// Each replacement breaks one rule.
    #[test]
    fn what_breaks_a_rule_is_refused() {
        for (from, to) in [
            ("# EOF\n", ""),
            ("# EOF\n", "# EOF"),
            ("# EOF\n", "# EOF\n\n"),
            ("# EOF\n", "\n# EOF\n"),
            ("a counter", "a summary"),
            ("a counter", "a counter\n# TYPE a counter"),
            ("# TYPE a counter\n", ""),
            ("# HELP a b", "# HELP b b"),
            ("# HELP a b", "# NOTE a b"),
            ("a_total 8", "a_total 8\n# HELP a late"),
            ("a_total 8", "a 8"),
            ("a_total 8", "b_total 8"),
            ("a_total 8", "a_total -8"),
            ("a_total 8", "a_total NaN"),
            ("a_total 8", "a_total inf"),
            ("a_total 8", "a_total 8 1700000000"),
            ("a_total 8", "a_total  8"),
            ("a_total 8", "a_total{x=\"1\\\"\\\\\\n\"} 8"),
            ("a_total 8", "a_total{} 8"),
            ("a_total 8", "a_total{x=\"1\",} 8"),
            ("a_total 8", "a_total{x=\"1\",x=\"2\"} 8"),
            ("a_total 8", "a_total{x:y=\"1\"} 8"),
            ("a_total 8", "a_total{x=\"1} 8"),
            ("a_total 8", "a_total{x=\"\\t\"} 8"),
            ("\\\"c", "\"c"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert!(text != GOOD && read(&text).is_err(), "{from} -> {to}");
        }
        for (from, to) in [
            ("} 2", "} 4"),
            ("1.5e-5", "+Inf"),
            ("+Inf", "7.0"),
            ("_count 3", "_count 4"),
            ("h_seconds_sum 0.5\n", ""),
            ("_count 3", "_count{le=\"1\"} 3"),
            ("{le=\"+Inf\"}", ""),
            ("h_seconds seconds", "h_seconds bytes"),
        ] {
            let text = HISTOGRAM.replacen(from, to, 1);
            assert!(text != HISTOGRAM && read(&text).is_err(), "{from} -> {to}");
        }
    }
}
