//! A process' clocks over virtual time: monotonic since its start, at its machine's rate; wall with
//! its machine's skew.

use crate::executor::Action;
use crate::world::{Core, Process};
use env::BoxFuture;
use env::clock::{Clock, Monotonic};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use types::time::Timestamp;

/// Wall time at the beginning of every world: 1 January 2026, seconds.
const EPOCH: i128 = 1_767_225_600;
const MILLION: i128 = 1_000_000;

/// Errors of a machine's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// Wall time is this much ahead, milliseconds.
    pub wall_ms: i64,
    /// Both run this much too fast, millionths.
    pub rate_ppm: i32,
}

impl Skew {
    /// What the clock shows after this much true time.
    fn shown(self, real: Duration) -> Duration {
        let nanos = real.as_nanos() as i128;
        Duration::from_nanos((nanos + nanos * i128::from(self.rate_ppm) / MILLION).max(0) as u64)
    }

    /// True time until the clock has shown so much more: rounded up.
    fn real(self, shown: Duration) -> Duration {
        let nanos = (shown.as_nanos() as i128).min(i128::from(u64::MAX) / 4);
        Duration::from_nanos((nanos * MILLION / (MILLION + i128::from(self.rate_ppm))) as u64 + 2)
    }
}

pub(crate) struct SimClock {
    pub(crate) core: Arc<Core>,
    pub(crate) process: Arc<Process>,
}

impl Clock for SimClock {
    fn now(&self) -> Monotonic {
        self.process.skew.shown(self.core.executor.now() - self.process.began)
    }

    fn wall(&self) -> Timestamp {
        let skew = self.process.skew;
        let shown = skew.shown(self.core.executor.now()).as_nanos() as i128;
        Timestamp::from_nanos(EPOCH * 1_000_000_000 + shown + i128::from(skew.wall_ms) * 1_000_000)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let deadline = self.core.executor.now().saturating_add(self.process.skew.real(time));
        Box::pin(Sleep { core: self.core.clone(), process: self.process.clone(), deadline, timer: None })
    }
}

struct Sleep {
    core: Arc<Core>,
    process: Arc<Process>,
    deadline: Duration,
    timer: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !this.process.is_alive() {
            return Poll::Pending;
        }
        if this.core.executor.now() >= this.deadline {
            return Poll::Ready(());
        }
        match this.timer {
            Some(key) => this.core.executor.rewake(key, cx.waker().clone()),
            None => this.timer = Some(this.core.executor.at(this.deadline, Action::Wake(cx.waker().clone()))),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.timer {
            self.core.executor.forget(key);
        }
    }
}
