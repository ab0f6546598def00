//! Median and spread of a few samples.

use serde::{Deserialize, Serialize};

/// Result of several rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// Smallest and largest.
    pub spread: [f64; 2],
    /// All values, in the order they were taken.
    pub samples: Vec<f64>,
}

impl Summary {
    /// `None` without samples, or if one is no number.
    pub fn of(samples: Vec<f64>) -> Option<Summary> {
        let middle = median(&samples)?;
        let spread = [
            samples.iter().copied().fold(f64::MAX, f64::min),
            samples.iter().copied().fold(f64::MIN, f64::max),
        ];
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
    Some(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    })
}

/// Confidence of [`Pairs::interval`].
const CONFIDENCE: f64 = 0.95;

/// Ratios of samples that were taken beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// Number of values.
    pub count: usize,
    /// The middle ratio.
    pub median: f64,
    /// Between these is the true median, 95 % sure, however the ratios are distributed (by order
    /// statistics).
    pub interval: [f64; 2],
}

impl Pairs {
    /// `None` if one is no number, or there are too few (below 6) to be so sure of anything.
    pub fn of(ratios: &[f64]) -> Option<Pairs> {
        let middle = median(ratios)?;
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let outside = outside(count)?;
        Some(Pairs {
            count,
            median: middle,
            interval: [sorted[outside], sorted[count - 1 - outside]],
        })
    }
}

/// Number of the lowest, and of the highest, of `count` samples that lie outside of the interval.
/// The true median is below the lowest `n + 1` with the probability that a fair coin shows heads at
/// most `n` times.
fn outside(count: usize) -> Option<usize> {
    let mut exactly = 0.5_f64.powi(i32::try_from(count).ok()?);
    let (mut at_most, mut heads) = (exactly, 0);
    if exactly == 0.0 || 2.0 * at_most > 1.0 - CONFIDENCE {
        return None;
    }
    loop {
        exactly *= (count - heads) as f64 / (heads + 1) as f64;
        at_most += exactly;
        if 2.0 * at_most > 1.0 - CONFIDENCE {
            return Some(heads);
        }
        heads += 1;
    }
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
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // From tables of the binomial distribution.
        for (count, wanted) in [
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (20, Some(5)),
            (60, Some(21)),
            (1000, Some(468)),
        ] {
            assert_eq!(outside(count), wanted, "{count}");
        }
        let ratios: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let pairs = Pairs::of(&ratios).unwrap();
        assert_eq!((pairs.count, pairs.median, pairs.interval), (20, 10.5, [6.0, 15.0]));
        assert_eq!(Pairs::of(&[1.0; 5]), None);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(7);
        let holds = |_: &usize| {
            let ratios: Vec<f64> = (0..30).map(|_| random.f64().powi(3)).collect();
            let [low, high] = Pairs::of(&ratios).unwrap().interval;
            (low..=high).contains(&0.125)
        };
        let held = (0..2000).filter(holds).count();
        assert!((1880..=1980).contains(&held), "{held} of 2000");
    }
}
