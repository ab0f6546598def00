//! The machine's clocks.

use super::reactors::Reactors;
use crate::BoxFuture;
use crate::clock::{Clock, Monotonic};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use types::time::Timestamp;

pub(super) struct RealClock {
    began: Instant,
    reactors: Arc<Reactors>,
}

impl RealClock {
    pub(super) fn new(reactors: Arc<Reactors>) -> RealClock {
        RealClock { began: Instant::now(), reactors }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Monotonic {
        self.began.elapsed()
    }

    fn wall(&self) -> Timestamp {
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Timestamp { sec: since.as_secs() as i64, nsec: since.subsec_nanos() },
            Err(before) => Timestamp::from_nanos(-(before.duration().as_nanos() as i128)),
        }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let deadline = Instant::now().checked_add(time);
        Box::pin(Sleep { deadline, timer: None, reactors: self.reactors.clone() })
    }
}

/// The tokio timer is made at the first poll, in the reactor that polls or, outside, in the next in
/// turn. It may then be polled anywhere: the timer keeps its reactor, the newest waker counts.
struct Sleep {
    /// `None`: beyond what the clock can say, never.
    deadline: Option<Instant>,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    reactors: Arc<Reactors>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(deadline) = this.deadline else { return Poll::Pending };
        if Instant::now() >= deadline {
            return Poll::Ready(());
        }
        if this.reactors.stopping() {
            // tokio's timers panic once their runtime is gone; a task that still waits now is about
            // to be dropped.
            return Poll::Pending;
        }
        let _inside = this.reactors.enter();
        let timer =
            this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        timer.as_mut().poll(cx)
    }
}
