//! Counts as OpenMetrics text, what Prometheus reads.
//!
//! Four families hold everything that the registry counts. Their labels are the kind of the device,
//! its name, and the operation, so they are bounded by the number of targets and mounts, never by
//! files. Two more families count by job, at most [`crate::jobs::JOBS_MAX`] per target. Gauges come
//! from parameters ([`crate::param::Param::gauge`]). Times are in seconds and sizes in bytes, the
//! base units of Prometheus.

pub mod read;

use crate::catalog;
use crate::histogram::HistogramSnapshot;
use crate::jobs::JobSample;
use crate::metric::Unit;
use crate::param::Param;
use crate::registry::{Sample, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Value of the answer's `Content-Type`.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Buckets that are shown, by their place in the histogram: each fourth power of two. The last
/// bound is +Inf.
const TIMES: &[usize] = &[4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26];
const SIZES: &[usize] = &[9, 11, 13, 15, 17, 19, 21, 23, 25];
const DEPTHS: &[usize] = &[1, 2, 3, 4, 5, 6, 8, 10, 12];

/// A gauge at one moment: its declaration, the device (or nothing), the value.
pub type Gauge = (&'static Param, String, f64);

/// The jobs of one target: its source (`mdt.sheen-MDT0000`), its jobs.
pub type JobsOf = (String, Vec<JobSample>);

struct Family {
    name: &'static str,
    help: &'static str,
    bounds: &'static [usize],
    /// So many recorded ones are 1 in the family's unit.
    parts: f64,
}

const DURATION: Family = Family {
    name: "sheen_operation_duration_seconds",
    help: "How long operations took: requests at clients and servers, commits.",
    bounds: TIMES,
    parts: 1e6,
};
const SIZE: Family = Family {
    name: "sheen_operation_size_bytes",
    help: "How much data requests and commits carried.",
    bounds: SIZES,
    parts: 1.0,
};
const DEPTH: Family = Family {
    name: "sheen_requests_in_flight",
    help: "Requests without an answer, as each new one found them.",
    bounds: DEPTHS,
    parts: 1.0,
};

/// The name of a parameter's gauge: `sheen_obdfilter_kbytesfree`.
pub fn gauge_name(param: &Param) -> String {
    let (kind, name) = (param.path.split('.').next().unwrap_or_default(), param.name());
    match param.path.contains('.') {
        true => format!("sheen_{}_{name}", kind.replace('-', "_")),
        false => format!("sheen_{name}"),
    }
}

/// Everything, with the end mark.
pub fn text(samples: &[Sample], gauges: &[Gauge], jobs: &[JobsOf]) -> String {
    let mut text = String::new();
    for (family, unit) in
        [(&DURATION, Unit::Microseconds), (&SIZE, Unit::Bytes), (&DEPTH, Unit::Requests)]
    {
        let of = samples
            .iter()
            .filter(|s| s.metric.unit == unit && matches!(s.value, Value::Histogram(_)));
        histograms(&mut text, family, of);
    }
    let counters = samples.iter().filter(|s| matches!(s.value, Value::Counter(_)));
    operations(&mut text, counters);
    by_job(&mut text, jobs);
    by_name(&mut text, gauges);
    text.push_str("# EOF\n");
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a string takes all");
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    put(text, format_args!("# TYPE {name} {kind}\n"));
    put(text, format_args!("# HELP {name} {}\n", escaped(help)));
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// `kind="osc",device="sheen-OST0000-osc-1",operation="ost_read"`
fn labels(sample: &Sample) -> String {
    labels_of(&sample.source, sample.metric.name)
}

fn labels_of(source: &str, operation: &str) -> String {
    let source = source.split('/').next().unwrap_or_default();
    let (kind, device) = source.split_once('.').unwrap_or((source, ""));
    format!("kind=\"{}\",device=\"{}\",operation=\"{operation}\"", escaped(kind), escaped(device))
}

fn by_job(text: &mut String, jobs: &[JobsOf]) {
    if jobs.iter().all(|(_, jobs)| jobs.is_empty()) {
        return;
    }
    let families = [
        (Unit::Microseconds, "sheen_job_operations", "How often jobs asked for operations."),
        (Unit::Bytes, "sheen_job_bytes", "Data that jobs read and wrote."),
    ];
    for (unit, name, help) in families {
        head(text, name, "counter", help);
        for (source, jobs) in jobs {
            for JobSample { job, tallies, .. } in jobs {
                for (metric, tally) in tallies.iter().filter(|(metric, _)| metric.unit == unit) {
                    let count = if unit == Unit::Bytes { tally.sum } else { tally.count };
                    let labels = labels_of(source, metric.name);
                    put(text, format_args!("{name}_total{{{labels},job=\"{job}\"}} {count}\n"));
                }
            }
        }
    }
}

fn histograms<'a>(text: &mut String, family: &Family, samples: impl Iterator<Item = &'a Sample>) {
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return;
    }
    let Family { name, help, bounds, parts } = family;
    head(text, name, "histogram", help);
    for sample in samples {
        let Value::Histogram(h) = &sample.value else { continue };
        let labels = labels(sample);
        let HistogramSnapshot { buckets, sum, .. } = &**h;
        let mut below = 0;
        let mut next = 0;
        for bound in *bounds {
            below += buckets[next..=*bound].iter().sum::<u64>();
            next = bound + 1;
            // Bucket n ends at 2^n - 1.
            let end = ((1u64 << bound) - 1) as f64 / parts;
            put(text, format_args!("{name}_bucket{{{labels},le=\"{end:?}\"}} {below}\n"));
        }
        below += buckets[next..].iter().sum::<u64>();
        put(text, format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {below}\n"));
        put(text, format_args!("{name}_count{{{labels}}} {below}\n"));
        put(text, format_args!("{name}_sum{{{labels}}} {:?}\n", *sum as f64 / parts));
    }
}

fn operations<'a>(text: &mut String, samples: impl Iterator<Item = &'a Sample>) {
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return;
    }
    head(text, "sheen_operations", "counter", "How often operations were asked for.");
    for sample in samples {
        let Value::Counter(count) = sample.value else { continue };
        put(text, format_args!("sheen_operations_total{{{}}} {count}\n", labels(sample)));
    }
}

fn by_name(text: &mut String, gauges: &[Gauge]) {
    let mut families: BTreeMap<&str, Vec<&Gauge>> = BTreeMap::new();
    gauges.iter().for_each(|gauge| families.entry(gauge.0.path).or_default().push(gauge));
    for param in catalog::ALL {
        let Some(gauges) = families.get(param.path) else { continue };
        let name = gauge_name(param);
        head(text, &name, "gauge", &format!("{} ({})", param.help, param.unit));
        for (_, device, value) in gauges {
            match device.as_str() {
                "" => put(text, format_args!("{name} {value:?}\n")),
                device => {
                    put(text, format_args!("{name}{{device=\"{}\"}} {value:?}\n", escaped(device)))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;
    use crate::registry::Registry;

    fn sample_text() -> String {
        let registry = Registry::default();
        let metric = |name, unit| Metric { name, unit, help: "" };
        let reads =
            registry.histogram(metric("ost_read", Unit::Microseconds), "osc.sheen-OST0000-osc-1");
        [0, 15, 16, 1 << 40].into_iter().for_each(|n| reads.record(n));
        registry
            .histogram(metric("read_bytes", Unit::Bytes), "osc.sheen-OST0000-osc-1")
            .record(4096);
        registry
            .histogram(metric("reads_in_flight", Unit::Requests), "osc.sheen-OST0000-osc-1/rpc")
            .record(3);
        registry.counter(metric("open", Unit::Requests), "llite.a\"b\\c").add(7);
        let gauges = [
            (&catalog::OBDFILTER_KBYTESFREE, "sheen-OST0000".to_owned(), 12.0),
            (&catalog::MEMUSED, String::new(), 99.0),
        ];
        let jobs = crate::jobs::Jobs::default();
        let values =
            [(metric("open", Unit::Microseconds), 7), (metric("read_bytes", Unit::Bytes), 4096)];
        jobs.record(types::job::JobId::new(b"dd.0"), Default::default(), values.into_iter());
        text(
            &registry.snapshot(|_| true),
            &gauges,
            &[("obdfilter.a".to_owned(), jobs.snapshot(Default::default()))],
        )
    }

    #[test]
    fn numbers_are_the_counters_own() {
        let text = sample_text();
        let labels = "kind=\"osc\",device=\"sheen-OST0000-osc-1\",operation=\"ost_read\"";
        for line in [
            format!("sheen_operation_duration_seconds_bucket{{{labels},le=\"1.5e-5\"}} 2"),
            format!("sheen_operation_duration_seconds_bucket{{{labels},le=\"6.3e-5\"}} 3"),
            format!("sheen_operation_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 4"),
            format!("sheen_operation_duration_seconds_count{{{labels}}} 4"),
            "sheen_operations_total{kind=\"llite\",device=\"a\\\"b\\\\c\",operation=\"open\"} 7".to_owned(),
            "sheen_obdfilter_kbytesfree{device=\"sheen-OST0000\"} 12.0".to_owned(),
            "sheen_memused 99.0".to_owned(),
            "sheen_job_operations_total{kind=\"obdfilter\",device=\"a\",operation=\"open\",job=\"dd.0\"} 1".to_owned(),
            "sheen_job_bytes_total{kind=\"obdfilter\",device=\"a\",operation=\"read_bytes\",job=\"dd.0\"} 4096"
                .to_owned(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_parser_understands_it() {
        let text = sample_text();
        let families = read::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let names: Vec<_> = families.keys().map(String::as_str).collect();
        let expected = [
            "sheen_job_bytes",
            "sheen_job_operations",
            "sheen_memused",
            "sheen_obdfilter_kbytesfree",
            "sheen_operation_duration_seconds",
            "sheen_operation_size_bytes",
            "sheen_operations",
            "sheen_requests_in_flight",
        ];
        assert_eq!(names, expected);
        assert_eq!(families["sheen_operations"].samples[0].labels["device"], "a\"b\\c");
    }
}
