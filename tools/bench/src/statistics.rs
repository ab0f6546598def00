//! Median and spread of a few samples.

use serde::{Deserialize, Serialize};

/// What several rounds gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// Smallest and largest.
    pub spread: [f64; 2],
    /// All, in the order they were taken.
    pub samples: Vec<f64>,
}

impl Summary {
    /// `None` without samples, or if one is no number.
    pub fn of(samples: Vec<f64>) -> Option<Summary> {
        let middle = median(&samples)?;
        let spread =
            [samples.iter().copied().fold(f64::MAX, f64::min), samples.iter().copied().fold(f64::MIN, f64::max)];
        Some(Summary { median: middle, spread, samples })
    }
}

/// Middle value; `None` without samples, or if one is no number.
pub fn median(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() || samples.iter().any(|s| !s.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(median(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn the_spread_reaches_from_end_to_end() {
        let summary = Summary::of(vec![5.0, -1.0, 9.0]).unwrap();
        assert_eq!((summary.median, summary.spread), (5.0, [-1.0, 9.0]));
        assert_eq!(summary.samples, [5.0, -1.0, 9.0]);
        assert_eq!(Summary::of(vec![]), None);
    }
}
