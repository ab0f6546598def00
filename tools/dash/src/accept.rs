//! Accepting connections: a bounded number at once, each in a task of its own, until the server is
//! dropped.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pause after a connection could not be accepted. The usual reason is a lack of descriptors, which
/// passes.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves what `accept` yields, at most `max` connections at once; others wait in the kernel's
/// queue. `what` names the server in the log. Never ends; dropping it ends all connections.
pub async fn serve_each<S, W>(
    what: &'static str,
    max: usize,
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    serve: impl Fn(S) -> W,
) where
    W: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(max));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let place = places.clone().acquire_owned().await.expect("never closed");
        match poll_fn(&mut accept).await {
            Ok(stream) => {
                let work = serve(stream);
                connections.spawn(async move {
                    work.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "{what}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
