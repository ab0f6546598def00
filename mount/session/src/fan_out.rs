//! Many requests at once, with a bound.

use env::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream;

/// Requests of one operation in flight at once. A file has up to 64 x 2,000 objects; the windows of
/// the sessions bound what reaches the network, this bounds memory.
pub const FAN_OUT_MAX: usize = 256;

/// Runs all, at most [`FAN_OUT_MAX`] at once; results in the order of `work`.
pub async fn fan_out<T: Send>(mut work: Vec<BoxFuture<'static, T>>) -> Vec<T> {
    match work.len() {
        0 => Vec::new(),
        1 => vec![work.remove(0).await],
        _ => stream::iter(work).buffered(FAN_OUT_MAX).collect().await,
    }
}
