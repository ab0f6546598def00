//! What the pairs of `watched` say: is the cost of being watched below its goal?

use crate::figure::Figure;
use crate::statistics::Pairs;
use std::fmt::Write as _;

/// Being watched may cost so much of the throughput.
const GOAL: f64 = 0.02;

/// Conclusions from the figures, a sentence each.
pub fn verdicts(figures: &[&Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let watched = figure.results.iter().find(|result| result.pairs.is_some());
        let told = watched.and_then(|result| result.pairs.as_ref()).map(verdict);
        let told = told.unwrap_or_else(|| "too few pairs to judge: more --repeats".to_owned());
        writeln!(text, "{}: {told}", figure.what).expect("a string takes all");
        if let Some(cpu) = watched.and_then(|result| result.cpu_pairs.as_ref()) {
            let [low, high] = cpu.interval.map(|ratio| (ratio - 1.0) * 100.0);
            let more = (cpu.median - 1.0) * 100.0;
            writeln!(text, "  CPU per operation, the reader's own included: {more:+.2} % ({low:+.2} to {high:+.2} %)")
                .expect("a string takes all");
        }
    }
    text
}

/// Ratios are unwatched to watched throughput.
fn verdict(pairs: &Pairs) -> String {
    let cost = |ratio: f64| 1.0 - 1.0 / ratio;
    let [low, high] = pairs.interval.map(cost);
    let word = match () {
        () if high <= GOAL => "within 2 %",
        () if low > GOAL => "MORE than 2 %",
        () => "2 % cannot be told from noise: more --repeats, or a quieter machine",
    };
    let (cost, low, high) = (cost(pairs.median) * 100.0, low * 100.0, high * 100.0);
    format!(
        "being watched costs {cost:.2} % ({low:.2} to {high:.2} %, 95 % sure, {} pairs): {word}",
        pairs.count
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(low: f64, median: f64, high: f64) -> Pairs {
        Pairs { count: 60, median, interval: [low, high] }
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        assert!(verdict(&pairs(0.99, 1.0, 1.01)).ends_with("within 2 %"));
        assert!(verdict(&pairs(1.03, 1.04, 1.05)).ends_with("MORE than 2 %"));
        assert!(verdict(&pairs(0.99, 1.0, 1.03)).contains("cannot be told"));
        assert!(
            verdict(&pairs(0.8, 1.25, 1.25)).starts_with(
                "being watched costs 20.00 % (-25.00 to 20.00 %, 95 % sure, 60 pairs)"
            )
        );
    }
}
