//! The report as one page of HTML that needs nothing from outside: plots (SVG), tables, and
//! published figures beside the measured ones.
//!
//! Every plot is there twice, drawn for a wide and for a narrow window; the style sheet shows the
//! one that fits. Plots have two colours of their own and take all others from the style sheet, so
//! that they follow a dark or light window.

mod plot;
mod published;
mod sections;

use crate::error::PageError;
use crate::figure::Report;
use crate::table::{QUIET, number};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page/style.css");

/// The page.
///
/// # Errors
/// A plot cannot be drawn: its numbers make no picture.
pub fn html(report: &Report) -> Result<String, PageError> {
    let mut items: Vec<&str> = report.figures.iter().map(|figure| figure.item.as_str()).collect();
    items.dedup();
    let mut parts = Vec::new();
    for item in &items {
        parts.push(sections::item(report, item)?);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "SheenFS benchmark " (report.commit) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "SheenFS benchmark" }
                    (facts(report))
                }
                nav aria-label="Items" {
                    @for item in &items { a href=(format!("#{item}")) { (item) } }
                }
                main { @for part in &parts { (part) } }
                footer {
                    p { "Made by " code { (report.command.join(" ")) } }
                }
            }
        }
    };
    Ok(page.into_string())
}

fn facts(report: &Report) -> Markup {
    let machine = &report.machine;
    let others = report.figures.iter().filter_map(|f| f.target()?.others_cpu).fold(0.0, f64::max);
    html! {
        dl.facts {
            div { dt { "Program" } dd { (report.version) ", commit " (report.commit) } }
            div { dt { "Machine" } dd { (machine.cpus) " x " (machine.cpu) ", " (machine.memory_bytes >> 30) " GiB" } }
            div { dt { "Kernel" } dd { "Linux " (machine.kernel) } }
            div { dt { "Rounds" } dd { (report.repeats) ", seed " (report.seed) } }
            @for place in &report.places {
                div {
                    dt { (format!("{:?}", place.role)) }
                    dd { (place.name) " (" (place.fs_type) ")" }
                }
            }
        }
        @if others > QUIET {
            p.note {
                "Others used up to " (number(others * 100.0)) " % of the machine while this ran. Compare CPU and ratios, not rates."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Role;
    use crate::figure::{Figure, Outcome, PlaceReport, Unit};
    use crate::machine::MachineReport;
    use crate::statistics::Summary;
    use std::collections::BTreeMap;

    fn outcome(place: &str, role: Role, value: f64, ratio: Option<f64>) -> Outcome {
        Outcome {
            place: place.to_owned(),
            role,
            value: Summary::of(vec![value, value * 1.1, value * 0.9]),
            skipped: None,
            ratio,
            pairs: None,
            cpu_pairs: None,
            cpu_us_program: Some(10.0),
            cpu_us_daemons: BTreeMap::from([("mount <MDT0000>".to_owned(), 20.0)]),
            resident_bytes: BTreeMap::from([("mount <MDT0000>".to_owned(), 30 << 20)]),
            requests: Some(1.0),
            background: None,
            others_cpu: Some(0.3),
            disk_busy: Some(0.1),
            limited_by: Some(crate::figure::Limit::Cpu),
            over_time: vec![(0.1, value), (0.2, value * 2.0), (0.3, value)],
        }
    }

    fn figure(item: &str, what: &str, unit: Unit, tags: &[(&str, &str)]) -> Figure {
        Figure {
            item: item.to_owned(),
            what: what.to_owned(),
            unit,
            goal: Some(1.0),
            tags: tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            results: vec![
                outcome("/mnt/<b>", Role::Target, 40.0, None),
                outcome("/tmp & more", Role::Reference, 80.0, Some(0.5)),
            ],
        }
    }

    fn report() -> Report {
        Report {
            format: 1,
            commit: "abc".to_owned(),
            version: "0".to_owned(),
            started: 0,
            command: vec!["sheen".to_owned(), "bench".to_owned(), "<script>".to_owned()],
            machine: MachineReport::here(),
            seed: 1,
            repeats: 3,
            settings: BTreeMap::new(),
            places: vec![PlaceReport {
                name: "/mnt/<b>".to_owned(),
                role: Role::Target,
                fs_type: "fuse.sheen".to_owned(),
                daemons: Vec::new(),
            }],
            figures: vec![
                figure("mdtest", "create", Unit::PerSecond, &[]),
                figure(
                    "io",
                    "4 KiB reads one by one, many files, cold",
                    Unit::MegabytesPerSecond,
                    &[],
                ),
                figure("build", "build, cold", Unit::Seconds, &[("build", "cold")]),
                figure("build", "2 at once", Unit::Seconds, &[("build", "many"), ("copies", "2")]),
                figure("rtt", "stat", Unit::Requests, &[]),
                figure(
                    "wan",
                    "w",
                    Unit::Percent,
                    &[("rtt_ms", "32.5"), ("op", "write"), ("stripes", "1")],
                ),
                figure(
                    "wan",
                    "w4",
                    Unit::Percent,
                    &[("rtt_ms", "32.5"), ("op", "write"), ("stripes", "4")],
                ),
                figure(
                    "wan",
                    "l0",
                    Unit::PerSecond,
                    &[("rtt_ms", "0"), ("command", "ls -l"), ("heat", "cold"), ("files", "9")],
                ),
                figure(
                    "wan",
                    "l",
                    Unit::PerSecond,
                    &[("rtt_ms", "32.5"), ("command", "ls -l"), ("heat", "cold"), ("files", "9")],
                ),
            ],
        }
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_outside() {
        let page = html(&report()).unwrap();
        for needed in
            ["<!DOCTYPE html>", "id=\"mdtest\"", "id=\"wan\"", "prefers-color-scheme", "</html>"]
        {
            assert!(page.contains(needed), "{needed}");
        }
        assert!(page.matches("<svg").count() >= 10, "two of each plot");
        for outside in ["<script", "<link", "@import", "url(", "<img", "src="] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("/mnt/<b>") && page.contains("/mnt/&lt;b&gt;"), "names are escaped");
        assert!(page.contains("Lustre"), "published figures stand beside");
    }

    #[test]
    fn rates_by_mdts_stand_beside_what_was_published() {
        let rate = |op, mdts, rate| {
            let tags = [("kind", "rate"), ("op", op), ("mdts", mdts), ("place", "split")];
            let mut figure = figure("mdts", "m", Unit::PerSecond, &tags);
            figure.tags.insert("machine_busy".to_owned(), "0.81".to_owned());
            figure.results = vec![outcome("/mnt/<b>", Role::Target, rate, None)];
            figure
        };
        let figures = ["create", "mkdir"]
            .into_iter()
            .flat_map(|op| [rate(op, "1", 100.0), rate(op, "8", 700.0)])
            .collect();
        let page = html(&Report { figures, ..report() }).unwrap();
        for op in ["create", "mkdir"] {
            assert!(page.contains(&format!("{op}: how the rate grows")), "{op}");
        }
        assert_eq!(page.matches("split, SheenFS").count(), 2);
        assert_eq!(page.matches("published, at best").count(), 1, "mkdir went on growing");
        assert!(page.contains("up to 81.0 %"));
    }

    #[test]
    fn reports_survive_their_file() {
        let text = serde_json::to_string(&report()).unwrap();
        let again: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}
