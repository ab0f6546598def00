//! Waking and ending background tasks.

use env::Env;
use env::watch;
use std::time::Duration;
use tokio::sync::Notify;

/// Wakes one task because there is work; remembered if it does not wait yet.
#[derive(Default)]
pub struct Wake(Notify);

impl Wake {
    /// There is work.
    pub fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits until there is work, `time` is over, or `stop` says so; `false`: stop.
    pub async fn wait(&self, env: &Env, time: Option<Duration>, stop: &mut Stop) -> bool {
        let timer = async {
            match time {
                Some(time) => env.clock.sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => false,
            () = self.0.notified() => true,
            () = timer => true,
        }
    }
}

/// A task's ear for the end.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Ready when the task must end.
    pub async fn stopped(&mut self) {
        // An error means that the MDT itself is gone, which is an end, too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// True if the task must end.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// Tells all tasks to end, and waits until they have: each holds a [`Stop`] until its end.
pub struct Stopper(watch::Sender<bool>);

impl Default for Stopper {
    fn default() -> Stopper {
        Stopper(watch::Sender::new(false))
    }
}

impl Stopper {
    /// An ear for a new task.
    pub fn ear(&self) -> Stop {
        Stop(self.0.subscribe())
    }

    /// Tells all to end and waits until they did.
    pub async fn stop(&self) {
        self.0.send_replace(true);
        self.0.closed().await;
    }
}

/// Waits after failures: doubled each time, reset by success.
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Option<Duration>,
}

impl Backoff {
    /// Between these.
    pub fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, next: None }
    }

    /// Returns the pause after one more failure.
    pub fn failed(&mut self) -> Duration {
        let wait = self.next.unwrap_or(self.min);
        self.next = Some((wait * 2).min(self.max));
        wait
    }

    /// Notes that it works again.
    pub fn succeeded(&mut self) {
        self.next = None;
    }
}
