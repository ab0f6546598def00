//! A process' clocks over virtual time: monotonic since its start, at its machine's rate; wall with
//! its machine's skew.

use crate::core::Core;
use crate::executor::Action;
use crate::machine::Process;
use env::BoxFuture;
use env::clock::{Clock, Monotonic};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use types::time::Timestamp;

/// Wall time at the beginning of every world: 1 January 2026, seconds.
const EPOCH: i128 = 1_767_225_600;

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
        Box::pin(Sleep {
            core: self.core.clone(),
            process: self.process.clone(),
            deadline,
            timer: None,
        })
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
            None => {
                this.timer =
                    Some(this.core.executor.at(this.deadline, Action::Wake(cx.waker().clone())))
            }
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
