//! A section of the page for each item: its plots, what limited it, its table.

use super::plot::{self, COLOURS, Row, Series};
use super::published;
use crate::error::PageError;
use crate::figure::Role;
use crate::figure::{Figure, Limit, Outcome, Report, Unit};
use crate::table::{background, number, ratio, with_unit};
use crate::verdict;
use maud::{Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

/// The section of one item.
///
/// # Errors
/// A plot cannot be drawn.
pub fn item(report: &Report, item: &str) -> Result<Markup, PageError> {
    let figures: Vec<&Figure> =
        report.figures.iter().filter(|figure| figure.item == item).collect();
    let ratios = ratios(item, &figures)?;
    let over_time = over_time(&figures)?;
    let beside = match item {
        "wan" => wan(&figures)?,
        "mdts" => mdts(&figures)?,
        "build" => builds(&figures)?,
        "io" => many_files(&figures),
        "watched" => html! { @for line in verdict::verdicts(&figures).lines() { p { (line) } } },
        _ => html! {},
    };
    Ok(html! {
        section id=(item) {
            h2 { (item) }
            @if let Some(settings) = report.settings.get(item) { p { small { (words(settings)) } } }
            (limits(&figures))
            (ratios)
            (over_time)
            (beside)
            (table(&figures))
        }
    })
}

/// Settings as words: `files 9, ranks 2`.
fn words(settings: &serde_json::Value) -> String {
    let Some(settings) = settings.as_object() else { return settings.to_string() };
    let told = settings.iter().filter(|(_, value)| !value.is_null());
    let word = |(key, value): (&String, &serde_json::Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{} {}", key.replace('_', " "), value.trim_matches(['[', ']']).replace(',', ", "))
    };
    told.map(word).collect::<Vec<_>>().join("; ")
}

/// Each series in a colour of its own: names for the legend, and lines.
fn coloured(series: Vec<(String, Vec<(f64, f64)>)>) -> (Vec<(usize, String)>, Vec<Series>) {
    let coloured = series.into_iter().enumerate();
    coloured
        .map(|(colour, (name, points))| ((colour, name), Series { colour, line: true, points }))
        .unzip()
}

fn legend(names: &[(usize, String)]) -> Markup {
    html! {
        ul.legend {
            @for (colour, name) in names { li { span class=(format!("k{}", colour % COLOURS)) {} (name) } }
        }
    }
}

/// The limits of the targets, and in how many steps.
fn limits(figures: &[&Figure]) -> Markup {
    let mut counts: BTreeMap<Limit, usize> = BTreeMap::new();
    figures
        .iter()
        .filter_map(|f| f.target()?.limited_by)
        .for_each(|limit| *counts.entry(limit).or_default() += 1);
    let all: usize = counts.values().sum();
    html! {
        @if all > 0 {
            p {
                "Limited by "
                @for (at, (limit, count)) in counts.iter().enumerate() {
                    @if at > 0 { ", " }
                    (limit.text()) " in " (count)
                }
                " of " (all) " steps."
            }
        }
    }
}

fn others(figures: &[&Figure]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for outcome in figures.iter().flat_map(|f| &f.results).filter(|r| r.role != Role::Target) {
        if !names.contains(&outcome.place) {
            names.push(outcome.place.clone());
        }
    }
    names
}

fn ratios(item: &str, figures: &[&Figure]) -> Result<Markup, PageError> {
    let names = others(figures);
    let row = |figure: &&Figure| {
        let point = |r: &Outcome| Some((names.iter().position(|name| *name == r.place)?, r.ratio?));
        let points: Vec<_> = figure.results.iter().filter_map(point).collect();
        (!points.is_empty()).then(|| Row { label: figure.what.clone(), points })
    };
    let rows: Vec<Row> = figures.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Ok(html! {});
    }
    let svg = plot::ratios(&format!("{item}: ratios to the references"), &rows)?;
    let names: Vec<(usize, String)> = names.into_iter().enumerate().collect();
    Ok(html! {
        figure {
            h3 { "Times as good as the reference" }
            (legend(&names))
            (PreEscaped(svg))
            figcaption { "Right of 1 it is faster than the reference (or needs less), left of 1 slower. Medians; the scale is logarithmic." }
        }
    })
}

fn over_time(figures: &[&Figure]) -> Result<Markup, PageError> {
    let mut all = Vec::new();
    for figure in figures {
        let series: Vec<(usize, &Outcome)> =
            figure.results.iter().enumerate().filter(|(_, r)| r.over_time.len() > 1).collect();
        if series.is_empty() {
            continue;
        }
        let names: Vec<(usize, String)> =
            series.iter().map(|(at, r)| (*at, r.place.clone())).collect();
        let lines: Vec<Series> = series
            .iter()
            .map(|(at, r)| Series { colour: *at, line: true, points: r.over_time.clone() })
            .collect();
        let svg = plot::lines(
            &format!("{}: over time", figure.what),
            ["seconds", figure.unit.text()],
            &lines,
        )?;
        all.push(html! {
            figure {
                h3 { (figure.what) ": over time" }
                (legend(&names))
                (PreEscaped(svg))
            }
        });
    }
    Ok(html! { @for one in &all { (one) } })
}

fn many_files(figures: &[&Figure]) -> Markup {
    let (low, high) = published::MANY_FILES_SHARE;
    let found = figures.iter().find(|f| f.what.contains("many files"));
    html! {
        @if let Some(figure) = found {
            p {
                "Published for the same kind of reads: Lustre 2.12 on ZFS targets gave "
                (number(low * 100.0)) " to " (number(high * 100.0)) " % of what it gave on ldiskfs. Here: "
                @for (at, outcome) in figure.results.iter().filter(|r| r.ratio.is_some()).enumerate() {
                    @if at > 0 { ", " }
                    (number(outcome.ratio.unwrap_or_default() * 100.0)) " % of " (outcome.place)
                }
                "."
            }
        }
    }
}

fn median(figure: &Figure) -> Option<f64> {
    Some(figure.target()?.value.as_ref()?.median)
}

fn tag<'a>(figure: &'a Figure, key: &str) -> Option<&'a str> {
    figure.tags.get(key).map(String::as_str)
}

fn builds(figures: &[&Figure]) -> Result<Markup, PageError> {
    let of = |kind: &str| figures.iter().find(|f| tag(f, "build") == Some(kind));
    let many = of("many").and_then(|f| Some((tag(f, "copies")?.to_owned(), median(f)?)));
    let alone = of("cold").and_then(|f| median(f));
    let published = published::builds()?;
    let Some(((copies, many), alone)) = many.zip(alone) else { return Ok(html! {}) };
    Ok(html! {
        p {
            "Many builds at once, how many times longer each takes than one alone: here "
            (number(many / alone)) " (" (copies) " at once, on the processors of one machine)"
            @for (system, at_once, times) in &published { "; " (system) " " (number(*times)) " (" (at_once) " at once, GCC 8.1 on 120 processors)" }
            "."
        }
    })
}

/// Throughput by stripes and listings by delay, beside what was published.
fn wan(figures: &[&Figure]) -> Result<Markup, PageError> {
    let mut delays: Vec<f64> =
        figures.iter().filter_map(|f| tag(f, "rtt_ms")?.parse().ok()).collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    let io = published::wan_io()?;
    let mut plots = Vec::new();
    for delay in &delays {
        let of = |op: &str| -> Vec<(f64, f64)> {
            let fits = |f: &&&Figure| {
                tag(f, "op") == Some(op)
                    && tag(f, "rtt_ms").and_then(|ms| ms.parse().ok()) == Some(*delay)
            };
            let point = |f: &&Figure| Some((tag(f, "stripes")?.parse().ok()?, median(f)?));
            figures.iter().filter(fits).filter_map(point).collect()
        };
        let published = |op: &str| -> Vec<(f64, f64)> {
            let rows = io.iter().filter(|r| r.op == op && r.rtt_ms == *delay);
            let mut best: BTreeMap<u32, f64> = BTreeMap::new();
            for row in rows {
                let most = best.entry(row.stripe_count).or_default();
                *most = most.max(row.percent_of_line);
            }
            best.into_iter().map(|(stripes, percent)| (f64::from(stripes), percent)).collect()
        };
        let series =
            [("write", 0, 2), ("read", 1, 3)].into_iter().flat_map(|(op, ours, theirs)| {
                [
                    (format!("{op}, SheenFS"), Series { colour: ours, line: true, points: of(op) }),
                    (
                        format!("{op}, Lustre, published, best setting"),
                        Series { colour: theirs, line: true, points: published(op) },
                    ),
                ]
            });
        let series: Vec<(String, Series)> = series.filter(|(_, s)| !s.points.is_empty()).collect();
        if series.is_empty() {
            continue;
        }
        let names: Vec<(usize, String)> =
            series.iter().map(|(name, s)| (s.colour, name.clone())).collect();
        let lines: Vec<Series> = series.into_iter().map(|(_, s)| s).collect();
        let svg =
            plot::lines(&format!("throughput at {delay} ms"), ["stripes", "% of line"], &lines)?;
        let readahead = published::best_with_readahead(*delay)?;
        plots.push(html! {
            figure {
                h3 { "Throughput at " (delay) " ms round trip, percent of line" }
                (legend(&names))
                (PreEscaped(svg))
                @if let Some(percent) = readahead {
                    figcaption { "With a read-ahead tuned by hand, Lustre reads reached " (number(percent)) " %." }
                }
            }
        });
    }
    Ok(html! { @for plot in &plots { (plot) } (listings(figures)?) })
}

/// How many times longer a listing takes over a link than without.
fn listings(figures: &[&Figure]) -> Result<Markup, PageError> {
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut add = |name: String, rows: Vec<(f64, f64)>| {
        let near = rows
            .iter()
            .find(|(ms, _)| *ms == 0.0)
            .map(|(_, seconds)| *seconds)
            .filter(|s| *s > 0.0);
        let far: Vec<(f64, f64)> =
            near.map_or(Vec::new(), |near| rows.iter().map(|(ms, s)| (*ms, s / near)).collect());
        if far.len() > 1 {
            series.push((name, far));
        }
    };
    for command in ["ls -l", "ls -U"] {
        let mine = figures
            .iter()
            .filter(|f| tag(f, "command") == Some(command) && tag(f, "heat") == Some("cold"));
        // Files a second; what was published are seconds.
        let point = |f: &&Figure| {
            let (files, rate): (f64, f64) = (tag(f, "files")?.parse().ok()?, median(f)?);
            Some((tag(f, "rtt_ms")?.parse().ok()?, files / rate))
        };
        add(format!("{command}, SheenFS"), mine.filter_map(point).collect());
        let rows = published::wan_ls()?;
        let mut systems: Vec<(&str, u64)> =
            rows.iter().map(|r| (r.system.as_str(), r.files)).collect();
        systems.sort_unstable();
        systems.dedup();
        for (system, files) in systems.into_iter().filter(|(_, files)| *files == 100_000) {
            let rows = rows
                .iter()
                .filter(|r| r.command == command && r.system == system && r.files == files);
            add(
                format!("{command}, {system}, published"),
                rows.map(|r| (r.rtt_ms, r.seconds)).collect(),
            );
        }
    }
    if !series.iter().any(|(name, _)| name.ends_with("SheenFS")) {
        return Ok(html! {});
    }
    let (names, lines) = coloured(series);
    let svg = plot::lines("listings over long links", ["round trip, ms", "times as long"], &lines)?;
    Ok(html! {
        figure {
            h3 { "Listings: how many times longer than without delay" }
            (legend(&names))
            (PreEscaped(svg))
        }
    })
}

/// Rates by the number of MDTs, as multiples of the rate with the first number, beside what was
/// published.
fn mdts(figures: &[&Figure]) -> Result<Markup, PageError> {
    let rates: Vec<&&Figure> = figures.iter().filter(|f| tag(f, "kind") == Some("rate")).collect();
    let mut operations: Vec<&str> = rates.iter().filter_map(|f| tag(f, "op")).collect();
    let mut seen = BTreeSet::new();
    operations.retain(|operation| seen.insert(*operation));
    let mut plots = Vec::new();
    for operation in operations {
        let mut places: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for figure in rates.iter().filter(|f| tag(f, "op") == Some(operation)) {
            let count = tag(figure, "mdts").and_then(|mdts| mdts.parse::<f64>().ok());
            if let Some((place, point)) = tag(figure, "place").zip(count.zip(median(figure))) {
                places.entry(place).or_default().push(point);
            }
        }
        let most = places.values().flatten().map(|(mdts, _)| *mdts).fold(1.0, f64::max);
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (place, points) in places {
            let first = points.first().copied().filter(|(_, rate)| *rate > 0.0);
            let Some((one, rate)) = first else { continue };
            let grown = points.iter().map(|(mdts, many)| (*mdts, one * many / rate)).collect();
            series.push((format!("{place}, SheenFS"), grown));
        }
        series.push(("in step with the MDTs".to_owned(), vec![(1.0, 1.0), (most, most)]));
        if let Some(flat) = published::flat_after(operation) {
            let flat = f64::from(flat).min(most);
            let at_best = vec![(1.0, 1.0), (flat, flat), (most, flat)];
            series.push(("Lustre 2.14.51, published, at best".to_owned(), at_best));
        }
        let (names, lines) = coloured(series);
        let svg = plot::lines(
            &format!("{operation} by MDTs"),
            ["MDTs", "times the rate of one"],
            &lines,
        )?;
        plots.push(html! {
            figure {
                h3 { (operation) ": how the rate grows" }
                (legend(&names))
                (PreEscaped(svg))
            }
        });
    }
    let busiest = |f: &&Figure| tag(f, "machine_busy")?.parse::<f64>().ok();
    let busy = figures.iter().filter_map(busiest).fold(0.0, f64::max);
    Ok(html! {
        p {
            "The machine was busy for up to " (number(busy * 100.0)) " % of the time. Where it was "
            "for more than 70 %, steps are limited by the CPU, and their efficiency does not count."
        }
        p {
            "Published of Lustre 2.14.51 with up to 38 MDTs (mdtest, 168 ranks): rates of files "
            "stop growing at 4 MDTs, removal of files and directories at 16; mkdir slows down "
            "there. A directory that splits by itself grows to 4 MDTs and stays far below one that "
            "was striped by hand. The line shows where the growth ends, and is as steep as it can "
            "be before."
        }
        @for plot in &plots { (plot) }
    })
}

fn table(figures: &[&Figure]) -> Markup {
    let names = others(figures);
    let goals = figures.iter().any(|f| f.goal.is_some());
    let cell = |outcome: Option<&Outcome>, unit: Unit| {
        html! {
            @match outcome {
                Some(outcome) => @match &outcome.value {
                    Some(value) => {
                        (with_unit(value.median, unit))
                        @if let Some(us) = outcome.cpu_us() { " " small { (number(us)) " us" } }
                    }
                    None => span title=(outcome.skipped.as_deref().unwrap_or("")) { "-" },
                },
                None => "",
            }
        }
    };
    let kept = |figure: &Figure| match figure.reached() {
        Some(true) => html! { span.good { "kept" } },
        Some(false) => html! { span.bad { "missed" } },
        None => html! {},
    };
    let behind = figures.iter().any(|figure| background(figure).is_some());
    html! {
        div.scroll tabindex="0" role="region" aria-label="Figures" {
            table {
                thead { tr {
                    th scope="col" { "step" }
                    th scope="col" { "median, CPU per operation" }
                    th scope="col" { "spread" }
                    th scope="col" { "limited by" }
                    @if behind { th scope="col" { "background" } }
                    @for name in &names { th scope="col" { (name) } th scope="col" { "ratio" } }
                    @if goals { th scope="col" { "goal" } }
                } }
                tbody {
                    @for figure in figures {
                        @let target = figure.target();
                        tr {
                            td { (figure.what) }
                            td { (cell(target, figure.unit)) }
                            td { @if let Some(value) = target.and_then(|t| t.value.as_ref()) {
                                (number(value.spread[0])) " to " (number(value.spread[1]))
                            } }
                            td { (target.and_then(|t| t.limited_by).map_or("", Limit::text)) }
                            @if behind { td {
                                @if let Some(requests) = background(figure) { (with_unit(requests, figure.unit)) }
                            } }
                            @for name in &names {
                                @let other = figure.results.iter().find(|r| r.role != Role::Target && r.place == *name);
                                td { (cell(other, figure.unit)) }
                                td { (other.map(ratio).unwrap_or_default()) }
                            }
                            @if goals { td {
                                @if let Some(goal) = figure.goal { (with_unit(goal, figure.unit)) " " (kept(figure)) }
                            } }
                        }
                    }
                }
            }
        }
    }
}
