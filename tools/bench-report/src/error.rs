//! Why a page cannot be made.

/// One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The plot library refused.
    #[error("cannot draw a plot: {0}")]
    Plot(String),
    /// The published figures in `data/` do not fit their rows.
    #[error("cannot read the published figures: {0}")]
    Published(#[from] csv::Error),
}
